"""The tool, served to agents over the Model Context Protocol.

``server``   what is offered: one tool, and resources for documents and chunks
``stdio``    one client over standard input and output
``http``     many clients over streamable HTTP, mounted into the HTTP service
``backends`` where the knowledge comes from: a knowledge base here, or a running service
"""
