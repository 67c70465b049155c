// Mastra: an agent whose tool runs commands in a sandbox. Mastra needs Node 22.13 or newer.
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { Sandbox } from "hortus";
import { z } from "zod";

const sandbox = await Sandbox.create({ ttlMs: 10 * 60_000 });
try {
  const shell = createTool({
    id: "shell",
    description: "Run a shell command in a sandbox without network. Files stay.",
    inputSchema: z.object({ command: z.string() }),
    execute: async ({ command }) => {
      const { exitCode, stdout, stderr } = await sandbox.run(command, { timeoutMs: 60_000 });
      return { exitCode, stdout, stderr };
    },
  });
  const agent = new Agent({
    id: "engineer",
    name: "Engineer",
    instructions: "Use the shell.",
    model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(process.env.MODEL ?? "gpt-5.2"),
    tools: { shell },
  });
  const { text } = await agent.generate(process.argv[2]);
  console.log(text);
} finally {
  await sandbox.kill();
}
