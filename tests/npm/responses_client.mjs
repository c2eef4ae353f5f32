// The official client of the responses API.
// SPDX-License-Identifier: Apache-2.0
import { assert, base, check, finish, key, load, model, question, report, sum, weather, working } from "./client.mjs";

const { default: OpenAI } = load("openai");
const client = new OpenAI({ apiKey: key, baseURL: base, maxRetries: 0 });
const tools = [{ type: "function", name: weather.name, description: weather.description, parameters: weather.schema, strict: false }];
const quiet = { reasoning: { effort: "none" } };
const ask = (input, more = {}) => ({ model, input, temperature: 0, max_output_tokens: 200, ...more });
const kinds = (response) => response.output.map((item) => item.type);

check("a response", async () => {
  const response = await client.responses.create(ask("Spell banana.", { ...quiet, instructions: "Be a dictionary." }));
  assert.equal(response.object, "response");
  assert.equal(response.status, "completed");
  assert.equal(response.output_text, "B-A-N-A-N-A.");
  assert.deepEqual(kinds(response), ["message"]);
  assert.equal(response.instructions, "Be a dictionary.");
  assert.equal(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens);
});

check("items as input", async () => {
  const response = await client.responses.create(
    ask(
      [
        { role: "developer", content: "You are a helpful dictionary." },
        { role: "user", content: [{ type: "input_text", text: "Define river." }] },
      ],
      quiet,
    ),
  );
  assert.match(response.output_text, /^river \(noun\): a large natural stream/);
});

check("the events of a stream are in order and numbered", async () => {
  const whole = await client.responses.create(ask(sum));
  assert.deepEqual(kinds(whole), ["reasoning", "message"]);
  assert.equal(whole.output[0].content[0].text, working);
  const events = [];
  for await (const event of await client.responses.create(ask(sum, { stream: true }))) events.push(event);
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  const names = events.map((e) => e.type);
  assert.deepEqual(names.filter((name, i) => name !== names[i - 1]), [
    "response.created", "response.in_progress",
    "response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
    "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
    "response.output_item.added", "response.content_part.added", "response.output_text.delta",
    "response.output_text.done", "response.content_part.done", "response.output_item.done",
    "response.completed",
  ]);
  const text = events.filter((e) => e.type === "response.output_text.delta").map((e) => e.delta).join("");
  assert.equal(text, whole.output_text);
  const last = events.at(-1).response;
  assert.deepEqual(last.output.map((i) => i.content[0].text), [working, text]);
  assert.equal(last.usage.output_tokens, whole.usage.output_tokens);
  assert.ok(last.usage.output_tokens_details.reasoning_tokens > 10);
  assert.equal(events[2].output_index, 0);
  assert.equal(events[2].item.id, events.find((e) => e.type === "response.reasoning_text.delta").item_id);
});

check("thoughts as a summary where one is asked for", async () => {
  const response = await client.responses.create(ask(sum, { reasoning: { effort: "medium", summary: "auto" } }));
  assert.equal(response.output[0].summary[0].text, working);
});

check("the stream helper puts a call together", async () => {
  if (!client.responses.stream) return;
  const stream = client.responses.stream(ask(question, { tools }));
  const deltas = [];
  stream.on("response.function_call_arguments.delta", (event) => deltas.push(event.delta));
  const response = await stream.finalResponse();
  const call = response.output.find((item) => item.type === "function_call");
  assert.equal(call.name, "get_weather");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
  assert.equal(deltas.join(""), call.arguments);
});

check("a tool is called, and its result read", async () => {
  const first = await client.responses.create(ask(question, { tools }));
  const call = first.output.find((item) => item.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
  const output = { type: "function_call_output", call_id: call.call_id, output: report };
  const whole = await client.responses.create(
    ask([{ role: "user", content: question }, ...first.output, output], { tools }),
  );
  assert.match(whole.output_text, /Paris/);
  const chained = await client.responses.create(ask([output], { tools, previous_response_id: first.id }));
  assert.equal(chained.output_text, whole.output_text);
  assert.equal(chained.previous_response_id, first.id);
});

check("a conversation goes on from a stored response", async () => {
  const first = await client.responses.create(ask("What is the opposite of hot?", quiet));
  const next = ask("Use cold in a sentence.", quiet);
  const whole = await client.responses.create({
    ...next,
    input: [
      { role: "user", content: "What is the opposite of hot?" },
      { role: "assistant", content: first.output_text },
      { role: "user", content: "Use cold in a sentence." },
    ],
  });
  const second = await client.responses.create({ ...next, previous_response_id: first.id });
  assert.equal(second.output_text, whole.output_text);
  assert.equal(second.usage.input_tokens, whole.usage.input_tokens);
  const kept = await client.responses.retrieve(first.id);
  assert.deepEqual(kept.output, first.output);
  const items = await client.responses.inputItems.list(second.id);
  assert.equal(items.data[0].content[0].text, "Use cold in a sentence.");
  const remove = client.responses.delete ?? client.responses.del;
  await remove.call(client.responses, first.id);
  await assert.rejects(() => client.responses.retrieve(first.id), OpenAI.NotFoundError);
  await assert.rejects(() => client.responses.create({ ...next, previous_response_id: first.id }), OpenAI.BadRequestError);
  const unstored = await client.responses.create(ask("Spell banana.", { ...quiet, store: false }));
  await assert.rejects(() => client.responses.retrieve(unstored.id), OpenAI.NotFoundError);
});

check("an answer held to a schema", async () => {
  const schema = {
    type: "object",
    properties: { word: { type: "string", maxLength: 20 }, count: { type: "integer", maximum: 99 } },
    required: ["word", "count"],
    additionalProperties: false,
  };
  const text = { format: { type: "json_schema", name: "spelling", schema, strict: true } };
  for (const more of [quiet, {}]) {
    const response = await client.responses.parse(ask("Spell banana.", { ...more, text }));
    assert.deepEqual(Object.keys(response.output_parsed), ["word", "count"]);
  }
});

check("an answer that is cut is incomplete", async () => {
  const response = await client.responses.create(ask("Define river.", { ...quiet, max_output_tokens: 4 }));
  assert.equal(response.status, "incomplete");
  assert.equal(response.incomplete_details.reason, "max_output_tokens");
  assert.equal(response.output[0].status, "incomplete");
  const names = [];
  const stream = await client.responses.create(ask("Define river.", { ...quiet, max_output_tokens: 4, stream: true }));
  for await (const event of stream) names.push(event.type);
  assert.equal(names.at(-1), "response.incomplete");
});

check("log-probabilities of the text", async () => {
  const response = await client.responses.create(
    ask("Spell banana.", { ...quiet, top_logprobs: 2, include: ["message.output_text.logprobs"] }),
  );
  const [{ text, logprobs }] = response.output[0].content;
  assert.equal(logprobs.map((l) => l.token).join(""), text);
  assert.ok(logprobs.every((l) => l.logprob <= 0 && l.top_logprobs.length === 2));
});

check("what is refused names its field", async () => {
  const fault = async (more, pattern) => {
    await assert.rejects(() => client.responses.create(ask("hi", more)), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.match(error.message, pattern);
      return true;
    });
  };
  await fault({ input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] }, /input\[0\]\.content\[0\]/);
  await fault({ tools: [{ type: "web_search" }] }, /tools\[0\]\.type/);
  await fault({ background: true }, /background/);
  await fault({ text: { format: { type: "yaml" } } }, /text\.format/);
});

await finish();
