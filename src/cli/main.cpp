// braid: the one program. Parses the command line, and turns errors into one line and an exit code.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>

#include "api/device.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/utf8.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/options.h"

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

std::string usage_fault(const CLI::App& app, const CLI::ParseError& error, std::string_view first) {
  const bool known =
      !app.get_subcommands([&](const CLI::App* command) { return command->get_name() == first; }).empty();
  if (!first.starts_with('-') && !known) return fmt::format("unknown command '{}'; braid --help lists them", first);
  const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  return fmt::format("{}{}", error.what(), unexpected ? " (a text that begins with '-' is given after --)" : "");
}

int run(int argc, char** argv) {
  CLI::App app(
      "braid - run language models on CPU and NVIDIA GPUs\n\n"
      "MODEL is a folder with config.json and safetensors files, or an id in the Hugging Face cache.\n"
      "braid COMMAND --help: all options, with defaults");
  app.get_formatter()->column_width(40);
  app.set_version_flag("--version", [] {
    return fmt::format("braid {} ({})\n{}", braid::version(), braid::commit(), braid::describe_devices());
  });
  app.require_subcommand(1);
  app.fallthrough();  // --log and --version are taken behind the command too
  braid::log::start("warn");
  app.add_option_function<std::string>(
         "--log", [](const std::string& level) { braid::log::start(level); }, "debug, info, warn, error or off")
      ->trigger_on_parse()
      ->default_str("warn");
  braid::cli::add_run(app);
  braid::cli::add_serve(app);
  braid::cli::add_bench(app);
  braid::cli::add_verify(app);
  braid::cli::add_perplexity(app);
  braid::cli::add_tokenize(app);
  braid::cli::add_describe(app);
  braid::cli::refuse_empty_values(app);
  if (argc == 1) {
    fmt::print("{}", app.help());
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();  // of a command that has said what failed
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw braid::Error(braid::ErrorKind::Usage, usage_fault(app, error, argv[1]));
    app.exit(error);
  }
  // What was printed has to have arrived.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    braid::fail(braid::ErrorKind::Resource, "standard output cannot be written: {}", std::strerror(errno));
  return 0;
}

// One line, whatever the message quotes of a file.
int report(std::string_view message, int code) {
  std::string line = braid::to_valid_utf8(message);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  std::fputs(fmt::format("braid: {}\n", line).c_str(),
             stderr);  // says nothing, and does not throw, where nobody can read it
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const braid::Error& error) {
    return report(error.message(), error.kind() == braid::ErrorKind::Usage ? kWrongUsage : kFailed);
  } catch (const braid::Interrupted&) {
    std::fflush(stdout);
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);  // so that a shell sees what ended the program
    return kFailed;
  } catch (const std::filesystem::filesystem_error& error) {
    return report(fmt::format("{}: {}", error.path1().string(), error.code().message()), kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kFailed);
  } catch (const std::exception& error) {
    return report(error.what(), kFailed);
  }
}
