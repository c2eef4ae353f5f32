// Drives the chat page in a browser: page_client.mjs PACKAGES URL BROWSER SCREENSHOT
// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [packages, url, executablePath, screenshot] = process.argv.slice(2);
const { chromium } = createRequire(`${packages}/package.json`)("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 390, height: 844 } });  // a phone's
const faults = [];
page.on("pageerror", (error) => faults.push(error.message));
page.on("request", (request) => { if (!request.url().startsWith(url)) faults.push(`asks ${request.url()}`); });
await page.goto(url);
const answers = page.locator("article.assistant");

async function ask(text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}
const finished = () => page.locator("#send").waitFor({ state: "visible", timeout: 120000 });

await ask("What is 27 + 15?");
await answers.first().locator("summary").waitFor({ timeout: 120000 });
await finished();
assert.match(await answers.first().locator("p").innerText(), /42/);
assert.match(await answers.first().locator(".rate").innerText(), /tokens\/s, \d+ tokens, prompt \d+/);
assert.equal(await answers.first().locator("details").getAttribute("open"), null);  // thoughts are folded
console.log("ok first turn");

await ask("Who are you?");
await finished();
assert.match(await answers.nth(1).innerText(), /Pocket/);
console.log("ok second turn");

await page.getByText("Settings").click();
await page.getByLabel("Temperature").fill("0");
await page.getByLabel("Tools, as a JSON list").fill(JSON.stringify([{ type: "function", function: {
  name: "get_weather", description: "Current weather in a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }]));
await page.getByText("Done").click();
await page.getByText("New", { exact: true }).click();
await ask("What is the weather in Paris?");
await page.getByLabel("Result of get_weather").fill('{"temperature": 21, "condition": "sunny"}');
await page.keyboard.press("Enter");
await finished();
await page.getByText("It is sunny in Paris, with 21 degrees.").waitFor({ timeout: 120000 });
console.log("ok tools");
await page.screenshot({ path: screenshot });

// Every token is held up, so that there is something to stop.
await page.route("**/chat/completions", (route) => {
  const body = JSON.parse(route.request().postData());
  route.continue({ postData: JSON.stringify({ ...body, ignore_eos: true, tools: undefined, max_tokens: 8000 }) });
});
await page.getByText("New", { exact: true }).click();
await ask("Who are you?");
await answers.first().waitFor({ timeout: 120000 });
await page.keyboard.press("Escape");
await finished();
assert.ok((await answers.first().innerText()).length > 0);
console.log("ok stop");

assert.deepEqual(faults, []);
await browser.close();
