"""Static checks of the files for deployment."""
