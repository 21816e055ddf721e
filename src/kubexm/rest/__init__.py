"""REST under /api/v1: the service for programs and for the page. Adds no second way to run anything."""
