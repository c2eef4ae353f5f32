// Drives a running server with the unmodified `openai` package: openai_client.mjs PACKAGES BASE_URL MODEL
// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, baseURL, model] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { default: exported } = await load("openai");
const OpenAI = exported.OpenAI ?? exported;
const { zodResponseFormat } = await load("openai/helpers/zod");
const { z } = await load("zod");

const client = new OpenAI({ baseURL, apiKey: "client-key", maxRetries: 0 });
const quiet = { chat_template_kwargs: { enable_thinking: false } };
const ask = (content, more = {}) => ({ model, messages: [{ role: "user", content }], temperature: 0, ...quiet, ...more });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { name: "get_weather", description: "Current weather in a city", parameters };
// Majors before the fifth keep the helpers under `beta`.
const chat = client.chat.completions.runTools ? client.chat.completions : client.beta.chat.completions;

const tests = {
  async models() {
    const ids = [];
    for await (const found of client.models.list()) ids.push(found.id);
    assert.deepEqual(ids, [model]);
    assert.equal((await client.models.retrieve(model)).id, model);
    await assert.rejects(client.models.retrieve("other"), { status: 404, code: "model_not_found" });
  },

  async chat() {
    const got = await client.chat.completions.create(ask("Spell banana."));
    assert.equal(got.choices[0].message.content, "B-A-N-A-N-A.");
    assert.equal(got.choices[0].finish_reason, "stop");
    assert.equal(got.usage.total_tokens, got.usage.prompt_tokens + got.usage.completion_tokens);
    assert.match(got._request_id, /^req_/);
  },

  async stream() {
    const stream = await client.chat.completions.create(
      ask("Spell banana.", { stream: true, stream_options: { include_usage: true } }));
    let text = "", last;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      last = chunk;
    }
    assert.equal(text, "B-A-N-A-N-A.");
    assert.ok(last.usage.completion_tokens > 5);
  },

  async streamHelper() {
    const seen = [];
    const runner = chat.stream(ask("Who are you?"));
    runner.on("content", (delta) => seen.push(delta));
    const text = await runner.finalContent();
    assert.match(text, /^I am Pocket/);
    assert.equal(seen.join(""), text);
  },

  async reasoning() {
    const got = await client.chat.completions.create(
      { model, messages: [{ role: "user", content: "What is 27 + 15?" }], temperature: 0 });
    assert.match(got.choices[0].message.reasoning_content, /^Ones: 7 \+ 5/);
    assert.match(got.choices[0].message.content, /42/);
    assert.ok(got.usage.completion_tokens_details.reasoning_tokens > 10);
  },

  async logprobs() {
    const got = await client.chat.completions.create(ask("Spell banana.", { logprobs: true, top_logprobs: 2 }));
    const { content } = got.choices[0].logprobs;
    assert.equal(content.map((entry) => entry.token).join(""), got.choices[0].message.content);
    assert.equal(content[0].top_logprobs.length, 2);
  },

  async calls() {
    const got = await client.chat.completions.create(
      ask("What is the weather in Paris?", { tools: [{ type: "function", function: weather }] }));
    const [call] = got.choices[0].message.tool_calls;
    assert.equal(got.choices[0].finish_reason, "tool_calls");
    assert.equal(call.function.name, "get_weather");
    assert.deepEqual(JSON.parse(call.function.arguments), { city: "Paris" });
  },

  async runTools() {
    const asked = [];
    const tool = { ...weather, parse: JSON.parse, function: ({ city }) => { asked.push(city); return '{"temperature": 21, "condition": "sunny"}'; } };
    for (const stream of [false, true]) {
      asked.length = 0;
      const runner = chat.runTools(ask("What is the weather in Paris?", { stream, tools: [{ type: "function", function: tool }] }));
      const text = await runner.finalContent();
      assert.deepEqual(asked, ["Paris"]);
      assert.equal(text, "It is sunny in Paris, with 21 degrees.");
    }
  },

  async parse() {
    const Entry = z.object({ word: z.string().max(20), pos: z.enum(["noun", "verb", "adjective"]) });
    const got = await chat.parse(ask("Give the entry for guitar as JSON.", { response_format: zodResponseFormat(Entry, "entry") }));
    assert.equal(got.choices[0].message.parsed.pos, "noun");
    assert.equal(got.choices[0].message.parsed.word, "guitar");
  },

  async completions() {
    const body = { model, prompt: "A river is", temperature: 0, max_tokens: 8 };
    const got = await client.completions.create({ ...body, logprobs: 2 });
    assert.equal(got.choices[0].logprobs.tokens.join(""), got.choices[0].text);
    let text = "";
    for await (const chunk of await client.completions.create({ ...body, stream: true })) text += chunk.choices[0]?.text ?? "";
    assert.equal(text, got.choices[0].text);
  },

  async echo() {
    const got = await client.completions.create(
      { model, prompt: "A river is", temperature: 0, max_tokens: 8, logprobs: 2, echo: true });
    const { tokens, token_logprobs } = got.choices[0].logprobs;
    assert.ok(got.choices[0].text.startsWith("A river is"));
    assert.equal(tokens.join(""), got.choices[0].text);
    assert.equal(token_logprobs[0], null);
  },

  async abort() {
    const stream = await client.chat.completions.create(ask("Who are you?", { stream: true, ignore_eos: true, max_tokens: 8000 }));
    let count = 0;
    for await (const chunk of stream) {
      assert.ok(chunk.id);
      if (++count === 5) stream.controller.abort();
    }
    assert.ok(count < 200);
  },

  async errors() {
    await assert.rejects(client.chat.completions.create(ask("x", { temperature: "hot" })),
      { status: 400, param: "temperature", type: "invalid_request_error" });
    await assert.rejects(client.embeddings.create({ model, input: "x" }), { status: 400 });
    const stranger = new OpenAI({ baseURL, apiKey: "other", maxRetries: 0 });
    await assert.rejects(stranger.models.list(), { status: 401, code: "invalid_api_key" });
  },
};

for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log(`ok ${name}`);
}
