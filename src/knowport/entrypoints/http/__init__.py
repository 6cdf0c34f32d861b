"""The HTTP service.

``app``      the ASGI application: routes, the wall before them, and what is seen of them
``server``   uvicorn around it: sockets, slow clients, the way it ends
``service``  the knowledge base, threads, jobs and figures that routes stand on
"""
