"""The endpoint to compare with: the same question read by the framework, answered with bytes made beforehand."""

from typing import Annotated

import uvicorn
from fastapi import FastAPI, Query, Response

from app.plan.scenario import Scenario


def serve(port: int, lengths: dict[str, int]) -> None:
    """Serve /bare/NAME for each length of answer."""
    app = FastAPI(openapi_url=None)

    def add(name: str, length: int) -> None:
        body = b" " * length

        @app.get(f"/bare/{name}")
        async def answer(scenario: Annotated[Scenario, Query()]) -> Response:
            return Response(body, media_type="application/json")

    for name, length in lengths.items():
        add(name, length)
    uvicorn.run(app, port=port, log_level="error", access_log=False)
