"""CrewAI: a crew whose engineer has the shell of a sandbox."""

import sys

from crewai import Agent, Crew, Task
from crewai.tools import tool
from hortus import Sandbox

with Sandbox.create({"ttlMs": 600_000}) as sandbox:

    @tool("shell")
    def shell(command: str) -> str:
        """Run a shell command in a sandbox without network. Files stay."""
        done = sandbox.run(command, timeout_ms=60_000)
        return f"exit code {done.exit_code}\n{done.stdout}{done.stderr}"

    engineer = Agent(role="Engineer", goal="Answer with what commands print", backstory="You check every answer in the shell.", tools=[shell])
    task = Task(description=sys.argv[1], expected_output="The answer, in one sentence.", agent=engineer)
    print(Crew(agents=[engineer], tasks=[task]).kickoff().raw)
