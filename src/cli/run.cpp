// braid run: one answer, a chat, or a file of requests.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/interrupt.h"
#include "cli/answer.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/options.h"
#include "text/template/chat_context.h"
#include "text/template/conversation.h"

namespace braid::cli {
namespace {

struct Options {
  OpenOptions open;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  std::string file, system, think;
  std::string messages, ids, batch, out;
  int32_t parallel = server::ServeOptions{}.parallel;
  bool raw = false, stats = false, json = false;
};

// Prints thoughts dimmed (on a terminal) and the answer plain, each beginning on a line of its own.
class Printer {
 public:
  void show(std::string_view text, bool reasoning) {
    if (reasoning != reasoning_) {
      fmt::print("{}", reasoning ? dim(true) : dim(false) + (any_ ? "\n\n" : ""));
      reasoning_ = reasoning;
    }
    any_ = true;
    fmt::print("{}", text);
    std::fflush(stdout);
  }
  void finish() {
    if (reasoning_) fmt::print("{}", dim(false));
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  std::string dim(bool on) const { return terminal_ ? (on ? "\x1b[2m" : "\x1b[22m") : ""; }
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1, reasoning_ = false, any_ = false;
};

void print_ending(const Answer& answer, const OpenModel& model, bool chat) {
  if (answer.finish == FinishReason::Context)
    fmt::print(stderr, "[the context of {} tokens is full{}]\n", model.context,
               chat ? "; /reset forgets the conversation" : "");
  if (answer.finish == FinishReason::Length) fmt::print(stderr, "[stopped after {} tokens]\n", answer.ids.size());
  if (answer.finish == FinishReason::Cancelled) fmt::print(stderr, "[stopped]\n");
}

void print_stats(const Prompt& prompt, const Answer& answer) {
  const auto rate = [](size_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  fmt::print(stderr, "prefill {} tokens {:.1f} tokens/s, decode {} tokens {:.1f} tokens/s, finish {}\n",
             prompt.ids.size(), rate(prompt.ids.size(), answer.prefill_seconds), answer.ids.size(),
             rate(answer.ids.size() - std::min<size_t>(answer.ids.size(), 1), answer.decode_seconds),
             name_of(answer.finish));
}

void print_json(const Prompt& prompt, const Answer& answer) {
  const Json out = {{"prompt", prompt.text},         {"prompt_ids", prompt.ids},
                    {"reasoning", answer.reasoning}, {"answer", answer.text},
                    {"answer_ids", answer.ids},      {"finish", std::string(name_of(answer.finish))}};
  fmt::print("{}\n", out.dump(1, ' ', false, Json::error_handler_t::replace));
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      fail(ErrorKind::Usage, "--ids: '{}' is not a token id", word);
    ids.push_back(id);
  }
  return ids;
}

// Whether a line of a chat is meant for the program rather than the model: /reset and what looks like it.
bool is_command(std::string_view line) {
  return line.size() > 1 && line.front() == '/' &&
         std::ranges::all_of(line.substr(1), [](char c) { return c >= 'a' && c <= 'z'; });
}

class Session {
 public:
  Session(const Options& options, const OpenModel& model)
      : options_(options), model_(model), answerer_(model, options.sampling) {
    check_utf8(options.system, "--system");
    reset();
  }

  // `name`: what the prompt is from.
  void once(const std::string& prompt, std::string_view name) {
    if (prompt.empty()) fail("{}: the prompt is empty", name);
    check_utf8(prompt, name);
    if (model_.chat_template && !options_.raw) return turn(prompt);
    const Prompt tokens = answerer_.prompt_of(prompt);
    if (!options_.raw) fmt::print(stderr, "braid: the model has no chat template: the prompt is completed as it is\n");
    answer(tokens);
  }

  void once(std::vector<int32_t> ids) { answer({.ids = std::move(ids)}); }

  // A conversation as a list of messages, or an object with messages, tools and further variables of the template.
  void conversation(const std::string& file) {
    if (!model_.chat_template) fail("{}: has no chat template for --messages", model_.folder.string());
    const Json json = parse_json(read_text(file), file);
    ChatInput input{.special_tokens = special_tokens(model_)};
    if (!json.is_array() && !(json.is_object() && json.contains("messages")))
      fail("{}: expected a list of messages, or an object with 'messages'", file);
    input.messages = json.is_array() ? json : json["messages"];
    if (json.is_object()) {
      input.tools = json.value("tools", Json());
      for (const auto& [key, value] : json.items())
        if (key != "messages" && key != "tools" && !value.is_null()) input.variables[key] = value;
    }
    set_thinking(input);
    answer(with_context(file, [&] {
      check_conversation(input.messages, input.tools);
      check_text_alone(input.messages);
      return prompt_of(input);
    }));
  }

  void chat() {
    if (!model_.chat_template)
      fail("{}: has no chat template, so there is no chat; give a prompt to complete, or --chat-template",
           model_.folder.string());
    const bool terminal = ::isatty(STDIN_FILENO) == 1;
    bool failed = false;
    chatting_ = true;
    if (terminal)
      fmt::print(stderr, "chat with {}: /reset forgets, Ctrl-C stops an answer, Ctrl-D ends\n",
                 model_.folder.filename().string());
    while (true) {
      forget_interrupts();
      if (terminal) fmt::print(stderr, "> ");
      const Line line = read_line();
      if (line.interrupted) {
        fmt::print(stderr, "\n");
        continue;
      }
      if (!line.text) break;
      if (line.text->empty()) continue;
      if (*line.text == "/reset") {
        reset();
        continue;
      }
      if (is_command(*line.text)) {
        fmt::print(stderr, "braid: {} is no command here: there is /reset alone; a blank in front makes it text\n",
                   *line.text);
        continue;
      }
      const size_t held = messages_.size();
      try {
        check_utf8(*line.text, "the line");
        turn(*line.text);
      } catch (const Error& error) {
        fmt::print(stderr, "braid: {}\n", error.message());
        if (messages_.size() > held) messages_.erase(held);
        failed = true;
      }
    }
    if (!terminal && failed) throw CLI::RuntimeError(1);  // nobody at a keyboard has seen the lines
  }

 private:
  struct Line {
    std::optional<std::string> text;
    bool interrupted = false;
  };
  // A line of standard input without its end; none at the end of the input.
  Line read_line() {
    while (true) {
      if (const size_t end = input_.find('\n'); end != std::string::npos) {
        Line line{.text = input_.substr(0, end)};
        input_.erase(0, end + 1);
        return line;
      }
      pollfd waiting[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = interrupt_descriptor(), .events = POLLIN}};
      if (::poll(waiting, 2, -1) < 0) continue;  // a signal: its byte is in the pipe
      if (waiting[1].revents != 0) return {.interrupted = true};
      char buffer[4096];
      const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (count <= 0) {
        if (input_.empty()) return {};
        return {.text = std::exchange(input_, {})};
      }
      input_.append(buffer, static_cast<size_t>(count));
    }
  }

  void reset() {
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  Prompt prompt_of(const ChatInput& input) const {
    const std::string text = render_chat(*model_.chat_template, input);
    if (text.empty()) fail("{}: makes an empty prompt", model_.chat_template->name());
    return answerer_.prompt_of(text);
  }

  void set_thinking(ChatInput& input) const {
    if (!options_.think.empty()) input.variables["enable_thinking"] = options_.think == "on";
  }

  void turn(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    ChatInput input{.messages = messages_, .special_tokens = special_tokens(model_)};
    set_thinking(input);
    const Prompt prompt = prompt_of(input);
    if (messages_.size() > kFirstTurn && std::ssize(prompt.ids) >= model_.context)
      fail("the conversation has grown to {} tokens and the context is {}: /reset forgets it", prompt.ids.size(),
           model_.context);
    const Answer given = answer(prompt);
    messages_.push_back({{"role", "assistant"}, {"content", given.text}});
    if (!given.reasoning.empty()) messages_.back()["reasoning_content"] = given.reasoning;
  }

  Answer answer(const Prompt& prompt) {
    Printer printer;
    Answer out = answerer_.ask(
        prompt,
        [&](std::string_view text, bool reasoning) {
          if (!options_.json) printer.show(text, reasoning);
        },
        interrupted());
    if (options_.json)
      print_json(prompt, out);
    else
      printer.finish();
    print_ending(out, model_, chatting_);
    if (options_.stats) print_stats(prompt, out);
    return out;
  }

  static constexpr size_t kFirstTurn = 2;  // messages of a conversation that begins: the system's and the user's
  const Options& options_;
  const OpenModel& model_;
  Answerer answerer_;
  Json messages_;
  std::string input_;
  bool chatting_ = false;
};

// What would be ignored if both were given.
const std::vector<Exclusion> kExclusions{{"PROMPT", {"--file", "--messages", "--ids"}},
                                         {"--file", {"--messages", "--ids"}},
                                         {"--messages", {"--ids", "--system", "--raw"}},
                                         {"--ids", {"--system", "--think", "--chat-template"}},
                                         {"--batch",
                                          {"PROMPT", "--file", "--messages", "--ids", "--system", "--raw", "--stats",
                                           "--json", "--logit-bias", "--seed", "--stop"}},
                                         {"--raw", {"--system", "--think", "--chat-template"}}};

void answer_batch(const Options& options) {
  server::ServeOptions serve{.open = options.open, .sampling = options.sampling.overrides};
  if (options.sampling.max_tokens == 0) fail(ErrorKind::Usage, "--max-tokens 0: --batch takes 1 and more");
  if (options.sampling.max_tokens > 0) serve.max_tokens = options.sampling.max_tokens;
  if (!options.think.empty()) serve.think = options.think == "on";
  serve.parallel = options.parallel;
  run_batch({.serve = std::move(serve), .in = options.batch, .out = options.out});
}

void run(const Options& options) {
  if (!options.batch.empty()) return answer_batch(options);
  const bool once = options.prompt || !options.file.empty() || !options.messages.empty() || !options.ids.empty();
  for (const auto& [given, flag] : {std::pair(options.raw, "--raw"), std::pair(options.json, "--json")})
    if (given && !once) fail(ErrorKind::Usage, "{} needs a prompt: a chat does without it", flag);
  catch_interrupts(Again::Ends);
  const OpenModel model = open_model(options.open);
  check_interrupted();
  Session session(options, model);
  if (!once) {
    catch_interrupts(Again::IsCaught);  // from here on it ends an answer
    return session.chat();
  }
  if (!options.messages.empty()) {
    session.conversation(options.messages);
  } else if (!options.ids.empty()) {
    session.once(parse_ids(options.ids));
  } else if (!options.file.empty()) {
    session.once(read_text(options.file), name_of_input(options.file));
  } else {
    const bool piped = *options.prompt == "-";
    session.once(piped ? read_text("-") : *options.prompt, piped ? name_of_input("-") : "PROMPT");
  }
  check_interrupted();
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "answer once, or chat when no prompt is given");
  add_model_options(*command, options->open, "longest conversation, answers included");
  add_loading_options(*command, options->open);
  command->add_option("--chat-template", options->open.chat_template,
                      "file with a Jinja chat template to use instead of the model's");
  command->add_option("PROMPT", options->prompt,
                      "the question; -: from standard input; after -- if it begins with '-'; none: chat");
  command->add_option("--file", options->file, "read the prompt from a file; -: from standard input");
  command->add_option("--messages", options->messages,
                      "answer a conversation: a JSON file of messages, or with tools too");
  command->add_option("--ids", options->ids, "the prompt as token ids");
  auto* batch =
      command->add_option("--batch", options->batch, "answer a file of OpenAI batch lines; -: standard input");
  auto* out = command->add_option("--out", options->out, "of --batch: what this file has answered is not asked again");
  batch->needs(out);
  out->needs(batch);
  command->add_option("--max-parallel", options->parallel, "of --batch: sequences computed at once")
      ->check(CLI::Range(1, 4096))
      ->needs(batch)
      ->capture_default_str();
  command->add_option("--system", options->system, "what the model is told before the conversation");
  command->add_option("--think", options->think, "on or off, where the template knows it")
      ->check(CLI::IsMember({"on", "off"}));
  command->add_flag("--raw", options->raw, "complete the prompt as it is, without the chat template");
  command->add_flag("--stats", options->stats, "tokens per second on standard error");
  add_json_option(*command, options->json);
  add_sampling_options(*command, options->sampling);
  exclude(*command, kExclusions);
  command->callback([options] { run(*options); });
}

}  // namespace braid::cli
