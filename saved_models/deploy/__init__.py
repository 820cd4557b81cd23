"""Configuration files for TF Serving, Docker Compose and Kubernetes."""
