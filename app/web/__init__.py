"""HTTP: pages, API, and the server."""
