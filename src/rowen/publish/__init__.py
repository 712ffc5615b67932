"""What goes out: snapshots of the index in files that others can read."""
