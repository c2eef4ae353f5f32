// braid perplexity: loss per token on a text, or the distance from another model's logits.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "api/model.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/logits_file.h"
#include "cli/options.h"
#include "engine/scorer.h"

namespace braid::cli {
namespace {

struct Options {
  OpenOptions open;
  std::string file, separator = "\x1e", save_logits, against;
  int64_t max_tokens = 1024, stride = 0, chunk = 256, parallel = 8;
  bool json = false;
};

// A run of tokens, and from which position on its tokens count (those before are context alone).
struct Window {
  std::vector<int32_t> tokens;
  int64_t counted_from = 1;
};

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (!separator.empty()) {
    const size_t next = text.find(separator, at);
    if (next == std::string::npos) break;
    parts.push_back(text.substr(at, next - at));
    at = next + separator.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

// Each document's first `max_tokens`; or, with a stride, windows of `max_tokens` that move on by it.
std::vector<Window> windows(const Options& options, const Tokenizer& tokenizer, int64_t longest) {
  std::vector<Window> out;
  const std::string whole = read_text(options.file);
  check_utf8(whole, name_of_input(options.file));
  for (const std::string& text : split(whole, options.separator)) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special_tokens = false});
    const int64_t length = std::ssize(ids);
    if (length < 2) continue;
    int64_t end = 1;  // tokens before it are counted already; the first has nothing before it
    for (int64_t at = 0; end < length; at += options.stride) {
      const int64_t stop = std::min(length, at + longest);
      out.push_back({.tokens = {ids.begin() + at, ids.begin() + stop}, .counted_from = std::max<int64_t>(end - at, 1)});
      end = stop;
      if (options.stride == 0) break;
    }
  }
  if (out.empty()) fail("{}: holds no document of two tokens or more", options.file);
  return out;
}

struct Sums {
  double loss = 0, divergence = 0;
  int64_t tokens = 0, agreed = 0;
};

// Kullback-Leibler distance of ours from theirs at one position, in nats, and whether both put the same token first.
void compare(std::span<const float> ours, std::span<const float> theirs, Sums& sums) {
  const auto log_sum = [](std::span<const float> logits) {
    const double largest = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - largest);
    return largest + std::log(sum);
  };
  const double our_sum = log_sum(ours), their_sum = log_sum(theirs);
  for (size_t i = 0; i < ours.size(); ++i) {
    const double expected = theirs[i] - their_sum;
    sums.divergence += std::exp(expected) * (expected - (ours[i] - our_sum));
  }
  sums.agreed += std::ranges::max_element(ours) - ours.begin() == std::ranges::max_element(theirs) - theirs.begin();
}

// What the logits of these windows are of.
LogitsSubject subject_of(const Options& options, const OpenModel& model, const std::vector<Window>& list) {
  LogitsSubject subject{.vocabulary = model.spec.vocabulary,
                        .longest = std::min(options.max_tokens, model.context),
                        .stride = options.stride};
  Hash hash;
  for (const Window& window : list) {
    const int64_t bounds[] = {std::ssize(window.tokens), window.counted_from};
    subject.rows += bounds[0] - bounds[1];
    hash.add(std::as_bytes(std::span(bounds)));
    hash.add(std::as_bytes(std::span(window.tokens)));
  }
  subject.text = hash.value();
  return subject;
}

Sums score(const Options& options, const OpenModel& model, const std::vector<Window>& list) {
  int64_t longest = 0;
  std::vector<ScoreDocument> documents;
  for (const Window& window : list) {
    ScoreDocument document{.tokens = window.tokens};
    for (int64_t i = window.counted_from - 1; i + 1 < std::ssize(window.tokens); ++i) document.positions.push_back(i);
    documents.push_back(std::move(document));
    longest = std::max<int64_t>(longest, std::ssize(window.tokens));
  }
  std::optional<LogitsWriter> writer;
  std::optional<LogitsReader> reader;
  const LogitsSubject subject = subject_of(options, model, list);
  if (!options.save_logits.empty()) writer.emplace(options.save_logits, subject);
  if (!options.against.empty()) reader.emplace(options.against, subject);
  // Rows of a file lie document by document.
  std::vector<int64_t> first_row;
  int64_t at = 0;
  for (const ScoreDocument& document : documents) {
    first_row.push_back(at);
    at += std::ssize(document.positions);
  }
  const int64_t sequences = std::min<int64_t>(options.parallel, std::ssize(documents));
  Scorer scorer(model.loaded(), {.context = longest,
                                 .chunk = std::min(options.chunk, longest),
                                 .step_tokens = options.chunk * 2,
                                 .sequences = static_cast<int32_t>(sequences)});
  Progress progress("scoring", static_cast<uint64_t>(subject.rows), Progress::Unit::Items);
  Sums sums;
  scorer.run(documents, [&](const ScoredRow& row) {
    const ScoreDocument& document = documents[row.document];
    const double loss = token_loss(row.logits, document.tokens[static_cast<size_t>(row.position + 1)]);
    if (!std::isfinite(loss)) {
      check_stored_values(model);
      fail("{}: the loss at token {} of {} {} is {}: the model's logits are not finite", model.folder.string(),
           row.position + 1, options.stride > 0 ? "window" : "document", row.document, loss);
    }
    sums.loss += loss;
    sums.tokens += 1;
    const int64_t place = first_row[row.document] + row.position - document.positions.front();
    if (writer) writer->write(place, row.logits);
    if (reader) compare(row.logits, reader->row(place), sums);
    progress.advance(1);
  });
  if (writer) writer->finish();
  return sums;
}

void perplexity(const Options& options) {
  if (options.max_tokens < 2) fail(ErrorKind::Usage, "--max-tokens must be at least 2");
  if (options.stride < 0 || options.stride > options.max_tokens)
    fail(ErrorKind::Usage, "--stride must lie between 0 and --max-tokens ({})", options.max_tokens);
  if (!options.save_logits.empty()) {
    std::error_code unequal;  // also where one of the two is not there
    for (const std::string& read : {options.file, options.against})
      if (std::filesystem::equivalent(read, options.save_logits, unequal))
        fail(ErrorKind::Usage, "--save-logits would replace {}, which is read", read);
    OutputFile(options.save_logits);  // a place that cannot be written is known before the model is loaded
  }
  catch_interrupts(Again::Ends);
  const OpenModel model = open_model(options.open);
  if (!model.tokenizer) fail("{}: has no tokenizer.json", model.folder.string());
  const std::vector<Window> list = windows(options, *model.tokenizer, std::min(options.max_tokens, model.context));
  if (options.max_tokens > model.context) log::warn("documents are cut at the context of {} tokens", model.context);
  const Sums sums = score(options, model, list);
  const double loss = sums.loss / static_cast<double>(sums.tokens), tokens = static_cast<double>(sums.tokens);
  if (options.json) {
    Json out = {
        {"nats_per_token", loss}, {"perplexity", std::exp(loss)}, {"tokens", sums.tokens}, {"windows", list.size()}};
    if (!options.against.empty()) {
      out["kl_nats"] = sums.divergence / tokens;
      out["top1_agreement"] = static_cast<double>(sums.agreed) / tokens;
    }
    fmt::print("{}\n", out.dump(1));
    return;
  }
  fmt::print("{:.5f} nats per token, perplexity {:.4f}, {} tokens in {} {}\n", loss, std::exp(loss), sums.tokens,
             list.size(), options.stride > 0 ? "windows" : "documents");
  if (!options.against.empty())
    fmt::print("{:.6f} nats of Kullback-Leibler distance per token, {:.3f}% of tokens with the same first choice\n",
               sums.divergence / tokens, 100 * static_cast<double>(sums.agreed) / tokens);
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("perplexity", "loss on a text, or distance from another model's logits");
  add_model_options(*command, options->open, "documents are cut here too");
  add_loading_options(*command, options->open);
  command->add_option("FILE", options->file, "the text; -: standard input")->required();
  command->add_option("--separator", options->separator, "splits the text into documents; empty: one document")
      ->default_str("U+001E");
  command
      ->add_option("--max-tokens", options->max_tokens, "each document is cut here; with --stride: length of a window")
      ->capture_default_str();
  command
      ->add_option("--stride", options->stride,
                   "score each document in windows that move on by this many tokens; 0: one window")
      ->capture_default_str();
  command->add_option("--chunk", options->chunk, "tokens of a document computed at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--parallel", options->parallel, "documents computed side by side")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--save-logits", options->save_logits, "write the logits of every scored position to this file");
  command->add_option("--against", options->against, "compare with logits that --save-logits wrote");
  add_json_option(*command, options->json);
  command->callback([options] { perplexity(*options); });
}

}  // namespace braid::cli
