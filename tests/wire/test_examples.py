"""The examples, each run against a running service, with a scripted model in place of an LLM."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import agents
import pytest
from agents.items import ModelResponse
from agents.usage import Usage
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from http_service import Running, running
from knowport.client import Client
from support import REPOSITORY

sys.path.append(str(REPOSITORY / "examples"))

import langchain_agent
import llamaindex_agent
import openai_agents

QUESTION = "支付库报 ERROR 1205 怎么办"
QUERY = {"query": "ERROR 1205 (HY000)"}
PAGE = "# 锁等待\n\n支付库报 ERROR 1205 (HY000)，查 `sys.innodb_lock_waits`，终止持锁的会话。\n"
KEY = "kb/lock-wait.md#chunk-0"
SENTENCE = "查 `sys.innodb_lock_waits`，终止持锁的会话。"
FINAL = f"终止持锁的会话 [{KEY}]"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("home"), documents={"lock-wait.md": PAGE}) as started:
        yield started


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


class ScriptedChatModel(FakeMessagesListChatModel):
    """LangChain's fake model, which can be given tools."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> ScriptedChatModel:
        assert [tool.name for tool in tools] == ["lookup_knowledge"]
        return self


def call(arguments: dict[str, Any]) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"id": "call-1", "name": "lookup_knowledge", "args": arguments}]
    )


def test_langchain(client: Client):
    model = ScriptedChatModel(responses=[call(QUERY), AIMessage(FINAL)])
    messages = langchain_agent.run(model, client, QUESTION)
    assert messages[-1].content == FINAL
    [found] = [message for message in messages if isinstance(message, ToolMessage)]
    assert found.tool_call_id == "call-1"
    assert SENTENCE in found.content
    assert f'document_id: "{KEY}"' in found.content
    answer = found.artifact["answer"]
    assert [item.document_id for item in answer.evidence] == [KEY]


def test_langchain_tells_the_model_of_an_error(client: Client):
    model = ScriptedChatModel(responses=[call({"query": " "}), AIMessage("?")])
    messages = langchain_agent.run(model, client, QUESTION)
    [told] = [message for message in messages if isinstance(message, ToolMessage)]
    assert told.status == "error"
    assert told.content == (
        "Error (invalid_input): The query is blank. Ask a question or give an error code."
    )


def test_langchain_stops_a_model_that_never_answers(client: Client):
    model = ScriptedChatModel(responses=[call(QUERY)])
    with pytest.raises(RuntimeError, match="no answer after 8 steps"):
        langchain_agent.run(model, client, QUESTION)


def test_llamaindex(client: Client):
    def scripted(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role=MessageRole.ASSISTANT, content=FINAL)
        block = ToolCallBlock(
            tool_call_id="call-1", tool_name="lookup_knowledge", tool_kwargs=QUERY
        )
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[block])

    llm = MockFunctionCallingLLM(response_generator=scripted)
    output = asyncio.run(llamaindex_agent.run(llm, client, QUESTION))
    assert str(output) == FINAL
    [made] = output.tool_calls
    assert made.tool_kwargs == QUERY
    assert not made.tool_output.is_error
    assert SENTENCE in made.tool_output.content


def test_llamaindex_retriever(client: Client):
    [node] = llamaindex_agent.KnowportRetriever(client).retrieve("ERROR 1205 (HY000)")
    assert node.node.id_ == KEY
    assert SENTENCE in node.text
    assert node.metadata["section"] == "锁等待"


class ScriptedModel(agents.Model):
    """Calls the tool once and then answers; keeps what it was given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def get_response(self, **given: Any) -> ModelResponse:
        self.seen.append(given["input"])
        output: Any = (
            ResponseFunctionToolCall(
                type="function_call",
                call_id="call-1",
                name="lookup_knowledge",
                arguments=json.dumps(QUERY),
            )
            if len(self.seen) == 1
            else ResponseOutputMessage(
                id="m",
                type="message",
                role="assistant",
                status="completed",
                content=[ResponseOutputText(type="output_text", text=FINAL, annotations=[])],
            )
        )
        return ModelResponse([output], Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def test_openai_agents_over_mcp(service: Running):
    agents.set_tracing_disabled(True)  # it would be sent to OpenAI
    model = ScriptedModel()
    result = asyncio.run(openai_agents.run(QUESTION, server=service.url, model=model))
    assert result.final_output == FINAL
    [output] = [item for item in model.seen[1] if item.get("type") == "function_call_output"]
    assert "lock-wait.md#chunk-0" in str(output["output"])
    assert SENTENCE in str(output["output"])
