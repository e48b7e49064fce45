"""What every algorithm promises. Cases live in `cases/`, one file for each family."""
