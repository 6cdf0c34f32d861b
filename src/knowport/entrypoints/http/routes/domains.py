"""The domain catalogues of sources."""

from __future__ import annotations

from fastapi import Request, Response

from knowport.core.domains import parse_catalogue
from knowport.entrypoints.http import schemas
from knowport.entrypoints.http.access import Writer
from knowport.entrypoints.http.replies import example, problems, reply, router
from knowport.entrypoints.http.service import service_of
from knowport.errors import ConfigurationError, InvalidInput
from knowport.pipelines.documents import checked_source

routes = router("domains")


@routes.put(
    "/domains",
    response_model=schemas.DomainsStored,
    responses={
        200: {"description": "In force.", **example({"source": "handbook", "domains": ["mysql"]})},
        **problems(404, 415),
    },
)
async def put(body: schemas.DomainsBody, caller: Writer, request: Request) -> Response:
    """Set the domain catalogue of a source in a scope, in place of the one before; null forgets
    it. Catalogues of several sources of a scope are used together."""
    service = service_of(request)
    scope, source = service.scope(caller, body.kb_scope), checked_source(body.source)

    def stored() -> list[str]:
        domains = [] if body.catalogue is None else _domains(body.catalogue)
        service.kb.set_domains(body.catalogue, source=source, kb_scope=scope)
        return domains

    return reply({"source": source, "domains": await service.write(stored)})


def _domains(catalogue: str) -> list[str]:
    """Ids of the domains; raises InvalidInput: the client is at fault, and no setting of ours."""
    try:
        return [domain.id for domain in parse_catalogue(catalogue, where="The catalogue").domains]
    except ConfigurationError as error:
        raise InvalidInput(
            error.message,
            field="catalogue",
            remedy=error.remedy or "See examples/ops-kb/domains.toml.",
        ) from error
