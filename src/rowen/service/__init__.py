"""What every door may ask."""
