"""A LangChain agent over a running Knowport service.

    pip install knowport langchain-core langchain-openai
    knowport serve &
    KNOWPORT_SERVER=http://127.0.0.1:8765 OPENAI_API_KEY=... python examples/langchain_agent.py \
        "支付库报 ERROR 1205 怎么办"

``lookup_tool`` is all that an agent of yours needs.
"""

from __future__ import annotations

import sys

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from knowport import KnowportError
from knowport.client import Client
from knowport.client.tool import DESCRIPTION, NAME, answer_text, error_text

INSTRUCTIONS = "Answer from what lookup_knowledge finds, and cite the document_id of each claim."
MOST_STEPS = 8


def lookup_tool(client: Client) -> BaseTool:
    """The tool, with the structured answer as its artifact for whoever checks citations."""

    def lookup_knowledge(query: str, category: str | None = None) -> tuple[str, dict]:
        try:
            answer = client.lookup(query, category=category)
        except KnowportError as error:
            raise ToolException(error_text(error)) from error
        return answer_text(answer), {"answer": answer}

    return StructuredTool.from_function(
        lookup_knowledge,
        name=NAME,
        description=DESCRIPTION,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def run(model: BaseChatModel, client: Client, question: str) -> list[AnyMessage]:
    """Let the model ask as often as it needs to; returns the conversation, the answer last."""
    tool = lookup_tool(client)
    bound = model.bind_tools([tool])
    messages: list[AnyMessage] = [SystemMessage(INSTRUCTIONS), HumanMessage(question)]
    for _ in range(MOST_STEPS):
        reply = bound.invoke(messages)
        messages.append(reply)
        if not reply.tool_calls:
            return messages
        messages.extend(tool.invoke(call) for call in reply.tool_calls)
    raise RuntimeError(f"no answer after {MOST_STEPS} steps")


def main() -> None:
    from langchain_openai import ChatOpenAI  # noqa: PLC0415  # any chat model with tools will do

    with Client.from_environment() as client:
        messages = run(ChatOpenAI(model="gpt-4.1-mini"), client, " ".join(sys.argv[1:]))
    print(messages[-1].content)


if __name__ == "__main__":
    main()
