"""Items, their passages, moves, deletions, duplicates and exports."""
