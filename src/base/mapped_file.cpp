// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace braid {

MappedFile::MappedFile(const std::filesystem::path& file, Mode mode) : file_(file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("{}: cannot be opened: {}", file.string(), std::strerror(errno));
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{descriptor};
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("{}: {}", file.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("{}: is not a regular file", file.string());
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  if (mode == Mode::Map) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) fail("{}: cannot be mapped: {}", file.string(), std::strerror(errno));
    data_ = static_cast<std::byte*>(address);
    mapped_ = true;
    return;
  }
  copy_ = std::make_unique_for_overwrite<std::byte[]>(size_);
  data_ = copy_.get();
  for (size_t done = 0; done < size_;) {
    const ssize_t count = ::pread(descriptor, data_ + done, size_ - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("{}: cannot be read: {}", file.string(), std::strerror(errno));
    if (count == 0) fail("{}: became shorter while it was read", file.string());
    done += static_cast<size_t>(count);
  }
}

MappedFile::~MappedFile() {
  if (mapped_) ::munmap(data_, size_);
}

void MappedFile::lock() {
  if (size_ != 0 && ::mlock(data_, size_) != 0)
    fail(ErrorKind::Resource, "{}: {} bytes cannot be locked in memory: {} (raise the limit 'ulimit -l')",
         file_.string(), size_, std::strerror(errno));
}

}  // namespace braid
