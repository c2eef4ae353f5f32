// What the client scripts share: where the packages are, the server's address, and the tool that the model knows.
// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [folder, address, name] = process.argv.slice(2);
const require = createRequire(folder + "/package.json");

export { assert };
export const base = address;
export const load = (name) => require(name);
export const model = name;
export const key = "client-key";
export const weather = {
  name: "get_weather",
  description: "Current weather in a city",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
export const question = "What is the weather in Paris?";
export const report = '{"temperature": 21, "sky": "sunny"}';
export const sum = "What is 27 + 15?";
export const working = "Ones: 7 + 5 = 12. Rest: 2 tens + 1 tens = 3 tens. 30 + 12 = 42.";

const checks = [];
export const check = (name, run) => checks.push([name, run]);

// Runs the checks one after the other, and says each result on a line of its own.
export async function finish() {
  let failed = 0;
  for (const [name, run] of checks) {
    try {
      await run();
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${error.stack ?? error}`);
    }
  }
  process.exitCode = failed === 0 ? 0 : 1;
}
