// The library in twenty lines: answer MODEL QUESTION.
// SPDX-License-Identifier: Apache-2.0
#include <api/model.h>
#include <base/log.h>
#include <engine/engine.h>
#include <text/template/chat_context.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 3) return std::cerr << "usage: answer MODEL QUESTION\n", 2;
  braid::log::start("warn");
  const braid::OpenModel model = braid::open_model({.model = argv[1]});
  if (!model.chat_template) return std::cerr << "the model has no chat template\n", 1;
  const braid::Json messages = {{{"role", "user"}, {"content", argv[2]}}};
  const std::string prompt = braid::render_chat(*model.chat_template, {.messages = messages,
                                                                       .special_tokens = braid::special_tokens(model),
                                                                       .variables = {{"enable_thinking", false}}});
  braid::Engine engine(model.loaded(), {.context = model.context,
                                        .steps = {.sequences = 1},
                                        .allowed = braid::allowed_tokens(model),
                                        .end_tokens = model.generation.end_tokens});
  braid::StreamDecoder decoder(*model.tokenizer, true);
  engine.submit({.tokens = model.tokenizer->encode(prompt),
                 .sampling = braid::with_overrides(model.generation.sampling, {.temperature = 0}),
                 .on_event = [&](const braid::Event& event) {
                   if (!event.finish) std::cout << decoder.push(event.token) << std::flush;
                   return braid::Verdict::Continue;
                 }});
  while (engine.step()) {
  }
  std::cout << decoder.finish() << "\n";
} catch (const braid::Error& error) {
  std::cerr << error.message() << "\n";
  return 1;
}
