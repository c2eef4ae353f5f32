// The official client of the messages API.
// SPDX-License-Identifier: Apache-2.0
import { assert, base, check, finish, key, load, model, question, report, sum, weather, working } from "./client.mjs";

const { default: Anthropic } = load("@anthropic-ai/sdk");
const client = new Anthropic({ apiKey: key, baseURL: base, maxRetries: 0 });
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema }];
const ask = (content, more = {}) => ({
  model,
  max_tokens: 200,
  temperature: 0,
  messages: [{ role: "user", content }],
  ...more,
});
const text = (message) => message.content.filter((b) => b.type === "text").map((b) => b.text).join("");

check("a message", async () => {
  const message = await client.messages.create(ask("Spell banana."));
  assert.equal(message.type, "message");
  assert.equal(message.role, "assistant");
  assert.deepEqual(message.content.map((b) => b.type), ["text"]);
  assert.equal(text(message), "B-A-N-A-N-A.");
  assert.equal(message.stop_reason, "end_turn");
  assert.equal(message.stop_sequence, null);
  assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 5);
  assert.ok(message.usage.output_tokens > 5);
});

check("system and content as blocks, with cache_control", async () => {
  const message = await client.messages.create(
    ask([{ type: "text", text: "Define river.", cache_control: { type: "ephemeral" } }], {
      system: [{ type: "text", text: "You are a helpful dictionary.", cache_control: { type: "ephemeral" } }],
    }),
  );
  assert.match(text(message), /^river \(noun\): a large natural stream/);
});

check("a stream gives what the whole message gives", async () => {
  const whole = await client.messages.create(ask("Define river."));
  const kinds = [];
  let heard = "";
  const stream = client.messages.stream(ask("Define river."));
  stream.on("streamEvent", (event) => kinds.push(event.type));
  stream.on("text", (delta) => (heard += delta));
  const message = await stream.finalMessage();
  assert.equal(heard, text(whole));
  assert.deepEqual(message.content, whole.content);
  assert.equal(message.stop_reason, whole.stop_reason);
  assert.equal(message.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(
    message.usage.input_tokens + message.usage.cache_read_input_tokens,
    whole.usage.input_tokens + whole.usage.cache_read_input_tokens,
  );
  const order = kinds.filter((kind, i) => kind !== kinds[i - 1] && kind !== "ping");
  assert.deepEqual(order, [
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
  ]);
});

check("a tool is called, and its result read", async () => {
  const message = await client.messages.create(ask(question, { tools }));
  assert.equal(message.stop_reason, "tool_use");
  assert.deepEqual(message.content.map((b) => b.type), ["tool_use"]);
  const [call] = message.content;
  assert.equal(call.name, "get_weather");
  assert.deepEqual(call.input, { city: "Paris" });
  assert.match(call.id, /^toolu_/);
  const turns = (content, is_error) => [
    { role: "user", content: question },
    { role: "assistant", content: message.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content, is_error }] },
  ];
  for (const content of [report, [{ type: "text", text: report }]]) {
    const answer = await client.messages.create({ ...ask("", { tools }), messages: turns(content, false) });
    assert.match(text(answer), /Paris/);
    assert.equal(answer.stop_reason, "end_turn");
  }
  const count = async (messages) => (await client.messages.countTokens({ model, tools, messages })).input_tokens;
  assert.ok((await count(turns("no such city", true))) > (await count(turns("no such city", false))));
});

check("a streamed call", async () => {
  const stream = client.messages.stream(ask(question, { tools }));
  const deltas = [];
  let whole;
  stream.on("inputJson", (delta, snapshot) => {
    deltas.push(delta);
    whole = snapshot;
  });
  const message = await stream.finalMessage();
  assert.deepEqual(message.content[0].input, { city: "Paris" });
  assert.deepEqual(JSON.parse(deltas.join("")), { city: "Paris" });
  assert.deepEqual(whole, { city: "Paris" });
  assert.ok(deltas.length > 1);
  assert.equal(message.stop_reason, "tool_use");
});

check("thoughts are blocks where they are asked for", async () => {
  const thinking = { type: "enabled", budget_tokens: 1024 };
  const whole = await client.messages.create(ask(sum, { thinking, max_tokens: 2000 }));
  assert.deepEqual(whole.content.map((b) => b.type), ["thinking", "text"]);
  assert.equal(whole.content[0].thinking, working);
  assert.equal(text(whole), "27 + 15 = 42.");
  let heard = "";
  const stream = client.messages.stream(ask(sum, { thinking, max_tokens: 2000 }));
  stream.on("thinking", (delta) => (heard += delta));
  const message = await stream.finalMessage();
  assert.equal(heard, working);
  assert.deepEqual(message.content.map((b) => b.type), ["thinking", "text"]);
  // The next turn sends the thoughts back.
  const next = await client.messages.create({
    ...ask("", { thinking, max_tokens: 2000 }),
    messages: [
      { role: "user", content: sum },
      { role: "assistant", content: message.content },
      { role: "user", content: "Spell banana." },
    ],
  });
  assert.equal(text(next), "B-A-N-A-N-A.");
  const none = await client.messages.create(ask(sum));
  assert.deepEqual(none.content.map((b) => b.type), ["text"]);
});

check("a tool that has to be called", async () => {
  const other = { name: "set_timer", description: "Sets a timer", input_schema: { type: "object", properties: { minutes: { type: "integer" } }, required: ["minutes"] } };
  for (const thinking of [undefined, { type: "enabled", budget_tokens: 1024 }]) {
    const more = { tools: [...tools, other], max_tokens: 2000, thinking };
    const named = await client.messages.create(ask("Spell banana.", { ...more, tool_choice: { type: "tool", name: "set_timer" } }));
    const call = named.content.find((b) => b.type === "tool_use");
    assert.equal(call.name, "set_timer");
    assert.ok(Number.isInteger(call.input.minutes));
    const any = await client.messages.create(
      ask("Define river.", { ...more, tool_choice: { type: "any", disable_parallel_tool_use: true } }),
    );
    assert.equal(any.content.filter((b) => b.type === "tool_use").length, 1);
    assert.equal(any.stop_reason, "tool_use");
  }
});

check("an answer held to a schema", async () => {
  const schema = { type: "object", properties: { word: { type: "string", maxLength: 20 }, count: { type: "integer", maximum: 99 } }, required: ["word", "count"], additionalProperties: false };
  const message = await client.messages.create(ask("Spell banana.", { output_config: { format: { type: "json_schema", schema } } }));
  const value = JSON.parse(text(message));
  assert.deepEqual(Object.keys(value), ["word", "count"]);
});

check("a budget of thoughts is kept", async () => {
  const message = await client.messages.create(ask(sum, { thinking: { type: "enabled", budget_tokens: 5 } }));
  assert.ok(message.usage.output_tokens_details === undefined || message.usage.output_tokens_details.thinking_tokens <= 7);
  assert.ok(working.startsWith(message.content[0].thinking));
});

check("ends: stop sequences, length", async () => {
  const stopped = await client.messages.create(ask("Spell banana.", { stop_sequences: ["zz", "N-A-N"] }));
  assert.equal(text(stopped), "B-A-");
  assert.equal(stopped.stop_reason, "stop_sequence");
  assert.equal(stopped.stop_sequence, "N-A-N");
  const cut = await client.messages.create(ask("Define river.", { max_tokens: 3 }));
  assert.equal(cut.stop_reason, "max_tokens");
  assert.equal(cut.usage.output_tokens, 3);
});

check("a last message of the assistant is continued", async () => {
  const whole = text(await client.messages.create(ask("Define river.")));
  const start = "river (noun): a large natural";
  const rest = await client.messages.create({
    ...ask(""),
    messages: [
      { role: "user", content: "Define river." },
      { role: "assistant", content: start },
    ],
  });
  assert.ok(whole.startsWith(start));
  assert.equal(start + text(rest), whole);
});

check("tokens are counted", async () => {
  const counted = await client.messages.countTokens({ model, tools, messages: [{ role: "user", content: question }] });
  const message = await client.messages.create(ask(question, { tools }));
  assert.equal(counted.input_tokens, message.usage.input_tokens + message.usage.cache_read_input_tokens);
});

check("errors have the classes of the API", async () => {
  const fault = async (body) => {
    try {
      await client.messages.create(body);
    } catch (error) {
      return error;
    }
    throw new Error("was not refused");
  };
  const unknown = await fault({ ...ask("hi"), model: "nobody" });
  assert.ok(unknown instanceof Anthropic.NotFoundError);
  assert.equal(unknown.error.error.type, "not_found_error");
  assert.ok(unknown.headers.get ? unknown.headers.get("request-id") : unknown.headers["request-id"]);
  const image = await fault(ask([{ type: "image", source: { type: "base64", media_type: "image/png", data: "" } }]));
  assert.ok(image instanceof Anthropic.BadRequestError);
  assert.match(image.error.error.message, /messages\[0\]\.content\[0\]/);
  const missing = await fault({ ...ask("hi"), max_tokens: undefined });
  assert.match(missing.error.error.message, /max_tokens/);
  const choice = await fault(ask("hi", { tools, tool_choice: { type: "tool", name: "other" } }));
  assert.match(choice.error.error.message, /tool_choice\.name/);
});

check("a stream can be left", async () => {
  const stream = client.messages.stream(ask("Define river."));
  let seen = 0;
  for await (const event of stream) {
    if (event.type === "content_block_delta" && ++seen === 2) break;
  }
  assert.equal(seen, 2);
});

if (client.beta?.messages?.toolRunner) {
  check("the tool runner goes the whole way", async () => {
    let asked;
    const message = await client.beta.messages.toolRunner({
      ...ask(question),
      tools: [
        {
          type: "custom",
          ...tools[0],
          run: (input) => {
            asked = input;
            return report;
          },
          parse: (input) => input,
        },
      ],
    });
    assert.deepEqual(asked, { city: "Paris" });
    assert.match(text(message), /^It is sunny in \w+, with 21 degrees\.$/);
  });
}

await finish();
