"""A LlamaIndex agent over a running Knowport service.

    pip install knowport llama-index-core llama-index-llms-openai
    knowport serve &
    KNOWPORT_SERVER=http://127.0.0.1:8765 OPENAI_API_KEY=... python examples/llamaindex_agent.py \
        "支付库报 ERROR 1205 怎么办"

``lookup_tool`` gives the tool to an agent; ``KnowportRetriever`` gives the evidence to any query
engine of LlamaIndex, one node for each excerpt, with the evidence key as its id.
"""

from __future__ import annotations

import asyncio
import sys

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from knowport import KnowportError
from knowport.client import Client
from knowport.client.tool import DESCRIPTION, NAME, answer_text, error_text

INSTRUCTIONS = "Answer from what lookup_knowledge finds, and cite the document_id of each claim."


def lookup_tool(client: Client) -> FunctionTool:
    def lookup_knowledge(query: str, category: str | None = None) -> str:
        try:
            return answer_text(client.lookup(query, category=category))
        except KnowportError as error:  # an error is told as one, and not as an empty answer
            return error_text(error)

    return FunctionTool.from_defaults(lookup_knowledge, name=NAME, description=DESCRIPTION)


class KnowportRetriever(BaseRetriever):
    """Evidence as nodes. They have no scores: an answer orders them, and tells their relevance."""

    def __init__(self, client: Client, *, category: str | None = None) -> None:
        super().__init__()
        self._client = client
        self._category = category

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self._client.lookup(query_bundle.query_str, category=self._category)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=item.document_id,
                    text=item.excerpt,
                    metadata={
                        "document_id": item.document_id,
                        "title": item.title,
                        "section": item.breadcrumb,
                        "source": item.source,
                        "relevance": str(item.relevance_level),
                    },
                )
            )
            for item in answer.evidence
        ]


async def run(llm: FunctionCallingLLM, client: Client, question: str) -> AgentOutput:
    """Let the model ask as often as it needs to; the calls it made are in ``tool_calls``."""
    agent = FunctionAgent(
        tools=[lookup_tool(client)], llm=llm, system_prompt=INSTRUCTIONS, streaming=False
    )
    return await agent.run(user_msg=question)


def main() -> None:
    from llama_index.llms.openai import OpenAI  # noqa: PLC0415  # any model with tools will do

    with Client.from_environment() as client:
        llm = OpenAI(model="gpt-4.1-mini")
        print(asyncio.run(run(llm, client, " ".join(sys.argv[1:]))))


if __name__ == "__main__":
    main()
