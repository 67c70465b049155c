"""OpenAI Agents SDK: a tool that runs code in a sandbox, whose variables stay."""

import asyncio
import sys

from agents import Agent, Runner, function_tool
from hortus import AsyncSandbox


async def main() -> None:
    async with await AsyncSandbox.create({"ttlMs": 600_000}) as sandbox:

        @function_tool
        async def python(code: str) -> str:
            """Run Python code in a sandbox without network. Variables stay for the next call."""
            done = await sandbox.run_code(code)
            return done.error.traceback if done.error else done.stdout + done.text

        agent = Agent(name="Analyst", instructions="Compute with the tool.", tools=[python])
        result = await Runner.run(agent, sys.argv[1])
        print(result.final_output)


asyncio.run(main())
