"""LangGraph: an agent whose shell is a sandbox."""

import sys

from hortus import Sandbox
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent

with Sandbox.create({"ttlMs": 600_000}) as sandbox:

    @tool
    def shell(command: str) -> str:
        """Run a shell command in a sandbox without network. Files stay."""
        done = sandbox.run(command, timeout_ms=60_000)
        return f"exit code {done.exit_code}\n{done.stdout}{done.stderr}"

    agent = create_react_agent("openai:gpt-5.2", tools=[shell])
    answer = agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]})
    print(answer["messages"][-1].content)
