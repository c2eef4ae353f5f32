// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/memory_info.h"
#include "base/rng.h"
#include "engine/mark_plan.h"
#include "engine/memory_plan.h"

namespace braid {
namespace {

constexpr int64_t kBorder = 64;

EngineOptions completed(const LoadedModel& model, EngineOptions options) {
  const ModelSpec& spec = model.spec;
  SchedulerLimits& steps = options.steps;
  CHECK(options.context > 0 && steps.sequences > 0 && steps.chunk >= 0 && options.cache_interval % kBorder == 0,
        "context={} sequences={} chunk={} interval={}", options.context, steps.sequences, steps.chunk,
        options.cache_interval);
  if (steps.step_tokens == 0) steps.step_tokens = model.executor.step_rows();
  if (steps.chunk == 0) steps.chunk = std::max<int64_t>(steps.step_tokens / 2, 1);
  steps.strict = options.deterministic;
  if (steps.strict) steps.chunk = std::max(steps.chunk, kBorder);
  steps.step_tokens = std::max<int64_t>(steps.step_tokens, steps.sequences + (steps.strict ? kBorder : 0));
  if (options.state.slots == 0) {
    options.state = plan_state(
        spec.needs, {.context = options.context, .sequences = steps.sequences, .kept = kept_slots(spec.needs, 0)});
  }
  if (StatePool::pages_for(options.context) > options.state.pages)
    fail(ErrorKind::Resource, "a context of {} tokens needs {} pages of state, there are {}", options.context,
         StatePool::pages_for(options.context), options.state.pages);
  if (!options.cache_bytes)
    options.cache_bytes = default_cache_bytes(spec.needs, options.context, memory_info().available);
  if (options.cache_interval == 0) options.cache_interval = mark_interval(spec.needs);
  return options;
}

StepRunner::Options runner_options(const EngineOptions& options) {
  return {.limits = {.tokens = options.steps.step_tokens,
                     .sequences = options.steps.sequences,
                     .heads = options.steps.sequences + kBorder,
                     .context = options.context},
          .poison = options.poison};
}

uint64_t system_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

double seconds_between(Sequence::Clock::time_point from, Sequence::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Engine::Engine(const LoadedModel& model, EngineOptions options)
    : model_(model),
      options_(completed(model, std::move(options))),
      pool_(model.executor, model.spec.needs, options_.state),
      cache_(pool_, *options_.cache_bytes),
      runner_(model, pool_, runner_options(options_)),
      sampler_(model.executor, model.spec.vocabulary, static_cast<int32_t>(options_.steps.sequences + kBorder),
               options_.allowed),
      seed_(options_.seed ? *options_.seed : system_seed()) {
  if (options_.deterministic && !model.executor.rows_independent())
    log::warn(
        "{} rounds a row by how many others are computed with it: answers may differ by that, in spite of "
        "deterministic",
        model.executor.name());
  if (options_.poison)
    for (int need = 0; need < static_cast<int>(pool_.needs().size()); ++need)
      model_.executor.submit(Fill{.out = pool_.array({need}), .byte = 0xFF});
  if (options_.cache_folder.empty() || *options_.cache_bytes == 0) return;
  store_.emplace(
      pool_, cache_,
      StateStore::Options{.folder = options_.cache_folder, .bytes = *options_.cache_bytes, .shape = shape()});
  store_->load();
  cache_.on_publish = [this](MarkId mark) { store_->note(mark); };
}

StateShape Engine::shape() const {
  const std::string said =
      fmt::format("{} {} {}", options_.identity, model_.executor.name(), options_.deterministic ? 1 : 0);
  return {.identity = checksum(std::as_bytes(std::span(said)), pool_.layout()),
          .page_tokens = StatePool::kPageTokens,
          .page_bytes = static_cast<int64_t>(pool_.page_bytes()),
          .slot_bytes = static_cast<int64_t>(pool_.slot_bytes()),
          .vocabulary = model_.spec.vocabulary};
}

void Engine::drain() {
  if (store_) store_->drain();
}

int64_t Engine::save_session(std::span<const int32_t> tokens, const std::filesystem::path& file) const {
  const PrefixCache::Hit hit = cache_.find(tokens);
  if (hit.mark == 0) return 0;
  SavedState state = read_mark(pool_, cache_, hit.mark, 0);
  state.identity = shape().identity;
  write_whole(file, encode_state(state));
  return std::min<int64_t>(hit.length, std::ssize(state.tokens));
}

std::vector<int32_t> Engine::restore_session(const std::filesystem::path& file) {
  const MappedFile mapped(file, MappedFile::Mode::Read);
  const SavedState state = with_context(file.string(), [&] { return decode_state(mapped.bytes(), shape()); });
  if (std::ssize(state.tokens) > options_.context || !restore_mark(pool_, cache_, state))
    fail(ErrorKind::Resource, "{}: no room for the state of {} tokens", file.string(), state.tokens.size());
  return state.tokens;
}

std::vector<int32_t> Engine::stop_tokens_of(const Request& request) const {
  std::vector<int32_t> tokens = request.stop_tokens;
  if (!request.ignore_end) tokens.insert(tokens.end(), options_.end_tokens.begin(), options_.end_tokens.end());
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

RequestId Engine::submit(Request request) {
  check_request(request, model_.spec.vocabulary);
  if (std::ssize(request.tokens) > options_.context)
    fail("the prompt has {} tokens, the context holds {}", request.tokens.size(), options_.context);
  if (options_.max_waiting && std::cmp_greater_equal(load().waiting, *options_.max_waiting))
    fail(ErrorKind::Resource, "{} requests wait already", *options_.max_waiting);
  const RequestId id = ++last_id_;
  const auto random = philox({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32), 0, 0}, seed_);
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->key = request.sampling.seed.value_or(uint64_t{random[0]} << 32 | random[1]);
  sequence->stop_tokens = stop_tokens_of(request);
  sequence->history = TokenHistory(request.sampling, request.tokens);
  sequence->prompt = std::ssize(request.tokens);
  sequence->usage.prompt = sequence->prompt;
  sequence->submitted = Sequence::Clock::now();
  sequence->tokens = std::move(request.tokens);
  sequence->request = std::move(request);
  const auto behind = [&](const auto& other) { return other->request.priority > sequence->request.priority; };
  const auto place = std::ranges::find_if(sequences_, behind);
  sequences_.insert(place, std::move(sequence));
  return id;
}

void Engine::cancel(RequestId id) {
  for (const auto& sequence : sequences_)
    if (sequence->id == id) sequence->cancelled = true;
}

bool Engine::step() {
  // Callbacks may submit, which moves the list's places but no sequence; finished ones leave it at the end of a turn.
  std::vector<Sequence*> cancelled;
  for (const auto& sequence : sequences_)
    if (sequence->cancelled && !sequence->finished) cancelled.push_back(sequence.get());
  for (Sequence* sequence : cancelled) finish(*sequence, FinishReason::Cancelled);
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->finished; });
  if (sequences_.empty()) return store_ && store_->write_next(true);
  try {
    compute(plan());
    cache_.trim();
    if (store_) store_->write_next(false);
  } catch (const std::exception& error) {
    end_all(error.what());  // what failed beside a step's own work would fail again
  }
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->finished; });
  return true;
}

void Engine::run_until_idle() {
  while (step()) {
  }
}

// The next `count` rows of a sequence, of which those reach the head that a token or a log-probability comes from.
SequenceRows Engine::rows_of(const Sequence& sequence, int64_t count) const {
  const int64_t first = sequence.state.length;
  SequenceRows rows{.state = &sequence.state};
  rows.tokens = std::span(sequence.tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    if (sequence.scoring() || first + i + 1 == std::ssize(sequence.tokens)) rows.heads.push_back(i);
  return rows;
}

void Engine::end_all(const std::string& why) {
  log::error("requests ended sequences={} error=\"{}\"", sequences_.size(), why);
  std::vector<Sequence*> unfinished;
  for (const auto& sequence : sequences_)
    if (!sequence->finished) unfinished.push_back(sequence.get());
  for (Sequence* sequence : unfinished) finish(*sequence, FinishReason::Error, {.error = why});
}

void Engine::compute(const Plan& plan) {
  std::vector<Sequence*> chosen;
  for (const RowRange& range : plan.decision.rows) chosen.push_back(plan.seen[range.index]);
  std::vector<Drawn> drawn(chosen.size());
  int64_t answers = 0, prompt_rows = 0;
  try {
    std::vector<SequenceRows> rows;
    for (size_t i = 0; i < chosen.size(); ++i) {
      Sequence& sequence = *chosen[i];
      const RowRange& range = plan.decision.rows[i];
      if (range.starts) start(sequence);
      cache_.reclaim_pages(pool_.missing_pages(sequence.state, std::ssize(sequence.tokens)));
      CHECK(pool_.grow(sequence.state, std::ssize(sequence.tokens)));
      rows.push_back(rows_of(sequence, range.count));
      const bool answer = std::ssize(sequence.tokens) - sequence.state.length == 1;
      (answer ? answers : prompt_rows) += range.count;
    }
    const auto began = Sequence::Clock::now();
    runner_.run(rows, [&](const Pass& pass) { drawn = draw(pass, chosen); });
    model_.executor.wait();
    cost_.add(answers, prompt_rows, seconds_between(began, Sequence::Clock::now()));
  } catch (const std::exception& error) {
    log::error("step failed sequences={} error=\"{}\"", chosen.size(), error.what());
    for (Sequence* sequence : chosen) finish(*sequence, FinishReason::Error, {.error = error.what()});
    return;
  }
  ++counts_.steps, counts_.rows += answers + prompt_rows;
  for (size_t i = 0; i < chosen.size(); ++i) commit(*chosen[i], plan.decision.rows[i].count);
  for (size_t i = 0; i < chosen.size(); ++i)
    if (Sequence& sequence = *chosen[i]; sequence.state.length == std::ssize(sequence.tokens)) take(sequence, drawn[i]);
}

// So many more rows are held; at some lengths others get a copy of them.
void Engine::commit(Sequence& sequence, int64_t count) {
  pool_.commit(sequence.state, sequence.state.length + count);
  sequence.usage.computed += count;
  const int64_t length = sequence.state.length;
  // Along an answer as along a prompt, unless answers are not shared.
  const bool due = length > sequence.prompt && length % options_.cache_interval == 0 && sequence.request.use_cache &&
                   !options_.deterministic;
  if (due || std::ranges::binary_search(sequence.marks, length))
    cache_.publish(std::span(sequence.tokens).first(static_cast<size_t>(length)), sequence.state);
}

Engine::Load Engine::load() const {
  Load load{.free_pages = pool_.free_pages() + pool_.kept_pages(),
            .free_slots = pool_.free_slots() + cache_.movable_slots(),
            .counts = counts_,
            .cache = cache_.stats()};
  for (const auto& sequence : sequences_)
    if (!sequence->finished) ++(sequence->running() ? load.running : load.waiting);
  return load;
}

void Engine::check_integrity() const {
  std::vector<const SequenceState*> held;
  int64_t parked = 0;
  for (const auto& sequence : sequences_) {
    held.push_back(&sequence->state);
    if (sequence->parked) parked += static_cast<int64_t>(sequence->parked->bytes.size());
  }
  pool_.check_integrity(held, cache_.check_integrity());
  const PrefixCache::Stats stats = cache_.stats();
  CHECK(stats.reserved == parked, "{} bytes are parked, {} are counted", parked, stats.reserved);
}

}  // namespace braid
