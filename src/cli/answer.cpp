// SPDX-License-Identifier: Apache-2.0
#include "cli/answer.h"

#include <charconv>
#include <chrono>
#include <cmath>

#include "api/model.h"
#include "base/error.h"
#include "engine/sampler.h"
#include "text/dialects/answer_parser.h"
#include "text/dialects/stop_strings.h"

namespace braid::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::pair<int32_t, float> parse_bias(const std::string& text, int64_t vocabulary) {
  const auto refuse = [&](const std::string& expected) {
    fail(ErrorKind::Usage, "--logit-bias '{}': expected {}", text, expected);
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) refuse("ID=BIAS");
  int32_t id = -1;
  const char* end = text.data() + equals;
  if (const auto parsed = std::from_chars(text.data(), end, id);
      parsed.ec != std::errc() || parsed.ptr != end || id < 0 || id >= vocabulary)
    refuse(fmt::format("a token id below {} before '='", vocabulary));
  float bias = 0;
  end = text.data() + text.size();
  if (const auto parsed = std::from_chars(text.data() + equals + 1, end, bias);
      parsed.ec != std::errc() || parsed.ptr != end || !(bias < HUGE_VALF))
    refuse("a number or -inf after '='");
  return {id, bias};
}

// The model's defaults, with what the command line says on top.
Sampling merged(const OpenModel& model, const SamplingOptions& options) {
  Sampling out = with_overrides(model.generation.sampling, options.overrides);
  for (const std::string& bias : options.logit_bias) out.logit_bias.push_back(parse_bias(bias, model.spec.vocabulary));
  out.seed = options.seed;
  return out;
}

// Calls are shown as the model writes them.
const Dialect kThoughtsOnly{.reasoning = ReasoningMarks{}};

// Turns tokens into what is shown: whole characters, up to a stop string, thoughts apart from the answer. Without a
// tokenizer: ids.
class Display {
 public:
  Display(const std::optional<Tokenizer>& tokenizer, const std::vector<std::string>& stops, ReasoningStart start)
      : stops_(stops), parser_({.dialect = kThoughtsOnly, .start = start}) {
    if (tokenizer) decoder_.emplace(*tokenizer, true), tokenizer_ = &*tokenizer;
  }
  // Whether the answer goes on.
  bool push(int32_t token, Answer& answer, const Show& show) {
    if (decoder_ && token >= 0 && is_mark(kThoughtsOnly, tokenizer_->piece(token))) {
      emit(parser_.push(stops_.push(decoder_->finish())), answer, show);
      emit(parser_.push(stops_.push_mark(tokenizer_->piece(token))), answer, show);
    } else {
      emit(parser_.push(stops_.push(decoder_ ? decoder_->push(token) : fmt::format("{} ", token))), answer, show);
    }
    return !stops_.stopped();
  }
  void finish(Answer& answer, const Show& show) {
    if (decoder_) emit(parser_.push(stops_.push(decoder_->finish())), answer, show);
    emit(parser_.push(stops_.finish()), answer, show);
    emit(parser_.finish(false), answer, show);
  }

 private:
  static void emit(const std::vector<AnswerPiece>& pieces, Answer& answer, const Show& show) {
    for (const AnswerPiece& piece : pieces) {
      const bool reasoning = piece.kind == AnswerPiece::Kind::Reasoning;
      (reasoning ? answer.reasoning : answer.text) += piece.text;
      show(piece.text, reasoning);
    }
  }
  const Tokenizer* tokenizer_ = nullptr;
  std::optional<StreamDecoder> decoder_;
  StopStrings stops_;
  AnswerParser parser_;
};

EngineOptions engine_options(const OpenModel& model) {
  return {.context = model.context,
          .steps = {.step_tokens = 512, .chunk = 512, .sequences = 1},
          .allowed = allowed_tokens(model),
          .end_tokens = model.generation.end_tokens};
}

}  // namespace

Answerer::Answerer(const OpenModel& model, const SamplingOptions& options)
    : model_(model),
      options_(options),
      sampling_(merged(model, options)),
      engine_(model.loaded(), engine_options(model)) {}

Prompt Answerer::prompt_of(const std::string& text) const {
  if (!model_.tokenizer) fail("{}: has no tokenizer.json; give the prompt with --ids", model_.folder.string());
  return {.text = text, .ids = model_.tokenizer->encode(text, {.add_special_tokens = !model_.chat_template})};
}

Answer Answerer::ask(const Prompt& prompt, const Show& show, const std::atomic<bool>& interrupted) {
  Answer answer;
  Request request{.tokens = prompt.ids, .sampling = sampling_};
  if (options_.max_tokens >= 0) request.max_tokens = options_.max_tokens;
  Display display(model_.tokenizer, options_.stop, reasoning_start(prompt.text, kThoughtsOnly));
  auto start = Clock::now();
  bool ended = false;
  std::string fault;
  request.on_event = [&](const Event& event) {
    if (event.token >= 0) {
      if (answer.ids.empty()) {
        answer.prefill_seconds = seconds_since(start);
        start = Clock::now();
      }
      answer.ids.push_back(event.token);
    }
    if (event.finish) {
      ended = true;
      answer.finish = *event.finish;
      answer.decode_seconds = seconds_since(start);
      fault = event.error;
      return Verdict::Stop;
    }
    return display.push(event.token, answer, show) ? Verdict::Continue : Verdict::Stop;
  };
  const RequestId id = engine_.submit(std::move(request));
  while (!ended && engine_.step())
    if (interrupted) engine_.cancel(id);
  if (answer.finish == FinishReason::Error) {
    if (fault == kNothingToDraw) check_stored_values(model_);
    fail("the answer failed: {}", fault);
  }
  display.finish(answer, show);
  return answer;
}

}  // namespace braid::cli
