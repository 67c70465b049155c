// Vercel AI SDK: tools that run code and write files in a sandbox.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { Sandbox } from "hortus";
import { z } from "zod";

const sandbox = await Sandbox.create({ ttlMs: 10 * 60_000 });
try {
  const { text } = await generateText({
    model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(process.env.MODEL ?? "gpt-5.2"),
    stopWhen: stepCountIs(10),
    tools: {
      writeFile: tool({
        description: "Write a file into the sandbox.",
        inputSchema: z.object({ path: z.string(), content: z.string() }),
        execute: async ({ path, content }) => {
          await sandbox.writeFile(path, content);
          return "written";
        },
      }),
      python: tool({
        description: "Run Python code in the sandbox. Variables stay for the next call.",
        inputSchema: z.object({ code: z.string() }),
        execute: async ({ code }) => {
          const { text, stdout, stderr, error } = await sandbox.runCode(code);
          return { text, stdout, stderr, error: error?.traceback };
        },
      }),
    },
    prompt: process.argv[2],
  });
  console.log(text);
} finally {
  await sandbox.kill();
}
