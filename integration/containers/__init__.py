"""What is deployed, on real containers: the image, the compose file, the systemd unit."""
