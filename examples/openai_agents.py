"""An agent of the OpenAI Agents SDK, which speaks MCP to a running Knowport service.

    pip install openai-agents
    knowport serve &
    KNOWPORT_SERVER=http://127.0.0.1:8765 OPENAI_API_KEY=... python examples/openai_agents.py \
        "支付库报 ERROR 1205 怎么办"

Nothing of Knowport is imported: any SDK that speaks MCP is connected in the same way.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agents import Agent, Model, Runner, RunResult
from agents.mcp import MCPServerStreamableHttp

INSTRUCTIONS = "Answer from what lookup_knowledge finds, and cite the document_id of each claim."


async def run(
    question: str, *, server: str, api_key: str = "", model: str | Model | None = None
) -> RunResult:
    """Let the model ask as often as it needs to."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with MCPServerStreamableHttp(
        {"url": f"{server}/mcp", "headers": headers, "timeout": 60},
        name="knowport",
        cache_tools_list=True,
        client_session_timeout_seconds=60,
    ) as knowport:
        agent = Agent(
            name="On call", instructions=INSTRUCTIONS, mcp_servers=[knowport], model=model
        )
        return await Runner.run(agent, question)


def main() -> None:
    result = asyncio.run(
        run(
            " ".join(sys.argv[1:]),
            server=os.environ["KNOWPORT_SERVER"],
            api_key=os.environ.get("KNOWPORT_API_KEY", ""),
        )
    )
    print(result.final_output)


if __name__ == "__main__":
    main()
