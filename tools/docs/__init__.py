"""What builds and checks the documentation site."""
