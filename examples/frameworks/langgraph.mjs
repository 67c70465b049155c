// LangGraph.js: an agent whose shell is a sandbox.
import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { Sandbox } from "hortus";
import { z } from "zod";

const sandbox = await Sandbox.create({ ttlMs: 10 * 60_000 });
try {
  const shell = tool(
    async ({ command }) => {
      const { exitCode, stdout, stderr } = await sandbox.run(command, { timeoutMs: 60_000 });
      return JSON.stringify({ exitCode, stdout, stderr });
    },
    { name: "shell", description: "Run a shell command in a sandbox without network. Files stay.", schema: z.object({ command: z.string() }) },
  );
  const llm = new ChatOpenAI({ model: process.env.MODEL ?? "gpt-5.2" });
  const agent = createReactAgent({ llm, tools: [shell] });
  const { messages } = await agent.invoke({ messages: [{ role: "user", content: process.argv[2] }] });
  console.log(messages.at(-1).content);
} finally {
  await sandbox.kill();
}
