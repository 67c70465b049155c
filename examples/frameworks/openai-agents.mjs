// OpenAI Agents SDK: its shell tool runs in a sandbox.
import { Agent, run, shellTool } from "@openai/agents";
import { Sandbox } from "hortus";

const sandbox = await Sandbox.create({ ttlMs: 10 * 60_000 });
try {
  const shell = {
    async run({ commands, timeoutMs }) {
      const output = [];
      for (const command of commands) {
        const { exitCode, stdout, stderr, exit } = await sandbox.run(command, { timeoutMs: timeoutMs ?? 60_000 });
        output.push({ stdout, stderr, outcome: exit.cause === "timeout" ? { type: "timeout" } : { type: "exit", exitCode } });
      }
      return { output };
    },
  };
  const agent = new Agent({
    name: "Engineer",
    model: process.env.MODEL ?? "gpt-5.2",
    instructions: "The shell is a sandbox without network. Files stay.",
    tools: [shellTool({ shell })],
  });
  const result = await run(agent, process.argv[2]);
  console.log(result.finalOutput);
} finally {
  await sandbox.kill();
}
