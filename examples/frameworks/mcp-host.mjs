// An MCP host: a model that calls the tools of Hortus over POST /mcp, as a chat application would.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import OpenAI from "openai";

const url = new URL("/mcp", process.env.HORTUS_HOST ?? "http://127.0.0.1:7070");
const headers = { Authorization: `Bearer ${process.env.HORTUS_API_KEY}` };
const hortus = new Client({ name: "host", version: "1.0.0" });
await hortus.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
try {
  const { tools } = await hortus.listTools();
  const openai = new OpenAI();
  const messages = [{ role: "user", content: process.argv[2] }];
  for (let step = 0; step < 20; step++) {
    const { choices } = await openai.chat.completions.create({
      model: process.env.MODEL ?? "gpt-5.2",
      messages,
      tools: tools.map((t) => ({ type: "function", function: { name: t.name, description: t.description, parameters: t.inputSchema } })),
    });
    const { message } = choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) {
      console.log(message.content);
      break;
    }
    for (const call of message.tool_calls) {
      const result = await hortus.callTool({ name: call.function.name, arguments: JSON.parse(call.function.arguments) });
      messages.push({ role: "tool", tool_call_id: call.id, content: result.content.map((c) => c.text ?? "").join("\n") });
    }
  }
} finally {
  await hortus.close();
}
