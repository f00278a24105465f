"""What is deployed is checked without deploying it."""
