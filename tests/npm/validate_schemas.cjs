// Validates texts against JSON schemas with ajv: one {"schema", "text"} per line of a file; prints what is not valid.
// SPDX-License-Identifier: Apache-2.0
const fs = require("fs");
const Ajv = require("ajv/dist/2020");
const addFormats = require("ajv-formats");

const ajv = new Ajv({ strict: false });
addFormats(ajv);
let checked = 0, wrong = 0, compiled = null, source = null;
for (const line of fs.readFileSync(process.argv[2], "utf8").split("\n")) {
  if (line === "") continue;
  const { schema, text } = JSON.parse(line);
  if (source !== JSON.stringify(schema)) {
    source = JSON.stringify(schema);
    compiled = ajv.compile(schema);
  }
  checked += 1;
  let problem = null;
  try {
    if (!compiled(JSON.parse(text))) problem = ajv.errorsText(compiled.errors);
  } catch (error) {
    problem = error.message;
  }
  if (problem !== null && ++wrong <= 5) console.log(`${problem}\n  schema ${source}\n  text ${text}`);
}
console.log(`${checked} texts, ${wrong} not valid`);
process.exit(wrong === 0 && checked > 0 ? 0 : 1);
