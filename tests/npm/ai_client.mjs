// The AI SDK with its provider for compatible servers.
// SPDX-License-Identifier: Apache-2.0
import { assert, base, check, finish, key, load, model, question, report, sum, weather, working } from "./client.mjs";

const { generateText, jsonSchema, stepCountIs, streamText, tool } = load("ai");
const { createOpenAICompatible } = load("@ai-sdk/openai-compatible");
const pocket = createOpenAICompatible({ name: "braid", baseURL: base, apiKey: key, includeUsage: true })(model);
const schema = jsonSchema(weather.schema);
// Present versions call it inputSchema, those that run on Node 18 parameters.
const get_weather = (asked) =>
  tool({
    description: weather.description,
    inputSchema: schema,
    parameters: schema,
    execute: async (input) => {
      asked.push(input);
      return JSON.parse(report);
    },
  });
const steps = stepCountIs ? { stopWhen: stepCountIs(4) } : { maxSteps: 4 };

check("text", async () => {
  const { text, finishReason, usage } = await generateText({ model: pocket, temperature: 0, prompt: "Spell banana." });
  assert.equal(text, "B-A-N-A-N-A.");
  assert.equal(finishReason, "stop");
  assert.ok((usage.outputTokens ?? usage.completionTokens) > 5);
});

check("streamed text", async () => {
  const result = streamText({ model: pocket, temperature: 0, prompt: "Define river." });
  const deltas = [];
  for await (const delta of result.textStream) deltas.push(delta);
  assert.match(deltas.join(""), /^river \(noun\): a large natural stream/);
  assert.ok(deltas.length > 5);
});

check("thoughts", async () => {
  const result = await generateText({ model: pocket, temperature: 0, prompt: sum });
  assert.equal(result.text, "27 + 15 = 42.");
  const thoughts = result.reasoningText ?? result.reasoning;
  assert.equal(typeof thoughts === "string" ? thoughts : thoughts.map((t) => t.text).join(""), working);
});

check("streamText calls the tool and goes on with its result", async () => {
  const asked = [];
  const result = streamText({
    model: pocket,
    temperature: 0,
    prompt: question,
    tools: { get_weather: get_weather(asked) },
    ...steps,
  });
  let text = "";
  for await (const delta of result.textStream) text += delta;
  assert.deepEqual(asked, [{ city: "Paris" }]);
  assert.match(text, /Paris/);
  assert.equal((await result.steps).length, 2);
});

await finish();
