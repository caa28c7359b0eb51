#include "dtc/Files/Checkpoint.h"

#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Sha256.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCheckpointManifest = "checkpoint.json", *kState = "state.safetensors",
                     *kStep = "step-", *kWriting = ".writing-", *kRemoving = ".removing-";
constexpr int64_t kMaxCheckpointManifest = 100'000'000;

std::string stepName(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return kStep + digits;
}

Error cannotWrite(const std::string& path, int number = errno) {
  return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(number));
}

// Flushes a folder, so that the names in it survive a loss of power.
Status flushFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return cannotWrite(path);
  const int failed = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (failed && failed != EINVAL)
    return cannotWrite(path, failed); // EINVAL: this file system has no such flush
  return Ok{};
}

std::string hashOf(const Tensor& value) {
  const auto bytes = value.bytes();
  return toHex(Sha256().add({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).finish());
}

FileLayout layoutOf(const std::vector<PiecedTensor>& tensors) {
  std::vector<FileLayout::Entry> entries;
  for (const PiecedTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape});
  return safetensorsLayout(std::move(entries));
}

// The pieces of process `rank`: written and flushed. Returns their hashes, in order.
Result<std::string> writeShare(const std::string& folder, const FileLayout& layout,
                               const std::vector<PiecedTensor>& tensors, int rank) {
  if (Status s = writePieces(folder + "/" + kState, layout, tensors, rank); !s) return s.error();
  std::string hashes;
  for (const PiecedTensor& t : tensors)
    for (const TensorPiece& p : t.pieces)
      if (p.writer == rank) hashes += hashOf(p.value);
  return hashes;
}

Status createFolder(const std::string& folder, const FileLayout& layout) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!fs::create_directory(folder, error)) return cannotWrite(folder, error.value());
  return createLaidOut(folder + "/" + kState, layout);
}

// A new file, flushed to the disk.
Status writeFlushed(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return cannotWrite(path);
  Status s = Ok{};
  while (s && !bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      s = cannotWrite(path);
    else
      bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (s && fsync(fd) != 0) s = cannotWrite(path);
  if (close(fd) != 0 && s) s = cannotWrite(path);
  return s;
}

// `hashes` are those of the processes, each in the order of its pieces.
Status writeManifest(const std::string& folder, CheckpointManifest& manifest,
                     const std::vector<PiecedTensor>& tensors, const std::vector<std::string>& hashes) {
  constexpr size_t kHash = 64; // hexadecimal digits
  std::vector<size_t> at(hashes.size(), 0);
  for (const PiecedTensor& t : tensors) {
    CheckpointManifest::Entry& entry = manifest.tensors.emplace_back(t.name, t.dtype, t.shape);
    for (const TensorPiece& p : t.pieces) {
      const auto writer = static_cast<size_t>(p.writer);
      entry.pieces.push_back(
          {p.box, hashes[writer].substr(std::exchange(at[writer], at[writer] + kHash), kHash)});
    }
  }
  const std::string path = folder + "/" + kCheckpointManifest, part = path + ".part";
  if (Status s = writeFlushed(part, manifestJson(manifest)); !s) return s;
  if (rename(part.c_str(), path.c_str()) != 0) return cannotWrite(path);
  return flushFolder(folder);
}

std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const auto step = parseNumber<int64_t>(name.substr(std::strlen(kStep)));
  return step && name == stepName(*step) ? step : std::nullopt;
}

// Removes a checkpoint in a way that never leaves a part of it under its name.
void removeCheckpoint(const std::string& folder, const std::string& name) {
  const std::string hidden = folder + "/" + kRemoving + name;
  std::error_code ignored;
  if (rename((folder + "/" + name).c_str(), hidden.c_str()) == 0) fs::remove_all(hidden, ignored);
}

} // namespace

// The folders in `folder` that have the names of checkpoints, with a manifest or without.
static Result<std::vector<CheckpointFolder::Found>> steps(const std::string& folder, bool complete) {
  std::vector<CheckpointFolder::Found> found;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (const auto step = stepOf(name);
        step && fs::exists(at->path() / kCheckpointManifest, ignored) == complete)
      found.push_back({*step, folder + "/" + name});
  }
  if (error) return inputError("cannot read the folder " + quotedPath(folder) + ": " + error.message());
  std::ranges::sort(found, {}, &CheckpointFolder::Found::step);
  return found;
}

Result<std::vector<CheckpointFolder::Found>> CheckpointFolder::list(const std::string& folder) {
  return steps(folder, true);
}

Result<std::vector<CheckpointFolder::Found>> CheckpointFolder::incomplete(const std::string& folder) {
  return steps(folder, false);
}

// A run that ends removes the file if it leaves no checkpoint.
static bool isStillThere(int fd, const std::string& path) {
  struct stat own, there;
  return fstat(fd, &own) == 0 && stat(path.c_str(), &there) == 0 && own.st_dev == there.st_dev &&
         own.st_ino == there.st_ino;
}

Result<std::unique_ptr<CheckpointFolder>> CheckpointFolder::open(const std::string& folder) {
  std::error_code error;
  const bool created = fs::create_directories(folder, error);
  if (error) return machineError("cannot create the folder " + quotedPath(folder) + ": " + error.message());
  const std::string lock = folder + "/.lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return cannotWrite(lock);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int failed = errno;
    close(fd);
    if (failed == EWOULDBLOCK)
      return usageError("another run writes its checkpoints to " + quotedPath(folder) +
                        ": use another folder");
    return cannotWrite(lock, failed);
  }
  if (!isStillThere(fd, lock)) { // another run has just ended
    close(fd);
    return open(folder);
  }
  std::vector<fs::path> stale;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(std::string(kWriting) + kStep) || name.starts_with(std::string(kRemoving) + kStep))
      stale.push_back(at->path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
  return std::unique_ptr<CheckpointFolder>(new CheckpointFolder(folder, fd, created));
}

std::unique_ptr<CheckpointFolder> CheckpointFolder::joined(const std::string& folder) {
  return std::unique_ptr<CheckpointFolder>(new CheckpointFolder(folder, -1, false));
}

CheckpointFolder::~CheckpointFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;
  int files = 0;
  for (fs::directory_iterator at(path_, ignored); !ignored && at != fs::directory_iterator();
       at.increment(ignored))
    ++files;
  if (files == 1 && unlink((path_ + "/.lock").c_str()) == 0 && created_) (void)rmdir(path_.c_str());
  close(lock_);
}

std::string CheckpointFolder::pathOf(int64_t step) const { return path_ + "/" + stepName(step); }

static Result<std::string> textOf(const Status& s) { return s ? Result<std::string>("") : s.error(); }

Status CheckpointFolder::write(CheckpointManifest manifest, const std::vector<PiecedTensor>& tensors,
                               size_t keep, WriterGroup& group) const {
  const bool leads = group.rank() == 0;
  const std::string name = stepName(manifest.step), temporary = path_ + "/" + kWriting + name;
  const FileLayout layout = layoutOf(tensors);
  manifest.bytes = layout.bytes;
  auto all = group.round(textOf(leads ? createFolder(temporary, layout) : Ok{}));
  if (all) all = group.round(writeShare(temporary, layout, tensors, group.rank()));
  Status s = all ? Status(Ok{}) : all.error();
  if (s && leads) s = writeManifest(temporary, manifest, tensors, *all);
  const std::string path = path_ + "/" + name;
  if (s && leads) removeCheckpoint(path_, name); // of an earlier run that got no further
  if (s && leads && rename(temporary.c_str(), path.c_str()) != 0) s = cannotWrite(path);
  if (s && leads) s = flushFolder(path_);
  std::error_code error;
  if (!s) fs::remove_all(temporary, error); // by all: the one that leads may have died
  if (all) all = group.round(textOf(s));
  if (s && !all) s = all.error();
  if (!s || !leads) return s;
  DTC_TRY(const auto found, list(path_));
  for (size_t i = 0; i + keep < found.size(); ++i) removeCheckpoint(path_, stepName(found[i].step));
  return Ok{};
}

// The tensor of a manifest in the file of the tensors.
static Result<TensorSource> sourceOf(TensorArchive& archive, const CheckpointManifest::Entry& e) {
  std::vector<int64_t> stored = e.shape;
  if (isComplex(e.dtype)) stored.push_back(2);
  if (!archive.has(e.name)) return inputError(quotedPath(archive.path()) + " has no tensor '" + e.name + "'");
  DTC_TRY(const auto source, archive.tensor(e.name, partType(e.dtype), &stored));
  return source.as(e.dtype, e.shape);
}

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Checkpoint c;
  c.folder_ = folder;
  DTC_TRY(const auto file, InputFile::openBeneath(folder, kCheckpointManifest));
  if (file.size() > kMaxCheckpointManifest)
    return inputError(quotedPath(file.path()) + " has more than 100000000 bytes");
  DTC_TRY(const auto text, file.text(0, file.size()));
  auto manifest = parseCheckpointManifest(text);
  if (!manifest)
    return inputError(quotedPath(file.path()) + " is not a valid manifest: " + manifest.error().message);
  c.manifest_ = *std::move(manifest);
  DTC_TRY(auto state, InputFile::openBeneath(folder, kState));
  if (state.size() != c.manifest_.bytes)
    return inputError(quotedPath(state.path()) + " has " + std::to_string(state.size()) + " bytes, but " +
                      std::to_string(c.manifest_.bytes) + " were written: the checkpoint is damaged");
  DTC_TRY(const auto archive, openSafetensors(std::move(state)));
  for (const CheckpointManifest::Entry& e : c.manifest_.tensors) {
    DTC_TRY(auto source, sourceOf(*archive, e));
    c.sources_.push_back(std::move(source));
  }
  return c;
}

const TensorSource& Checkpoint::source(const CheckpointManifest::Entry& e) const {
  return sources_[static_cast<size_t>(&e - manifest_.tensors.data())];
}

Status Checkpoint::verify(ReaderShare share) const {
  int64_t number = 0;
  for (const CheckpointManifest::Entry& e : manifest_.tensors)
    for (const CheckpointManifest::Piece& p : e.pieces) {
      if (number++ % share.size != share.rank) continue;
      DTC_TRY(const auto value, source(e).box(p.box));
      if (hashOf(value) != p.sha256)
        return inputError("'" + e.name + "' in " + quotedPath(folder_ + "/" + kState) +
                          " does not have the SHA-256 that the manifest states: the checkpoint is damaged");
    }
  return Ok{};
}

Result<std::vector<CheckpointFolder::Found>> checkpointsIn(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / kCheckpointManifest, ignored)) {
    DTC_TRY(const auto one, Checkpoint::open(folder));
    return std::vector<CheckpointFolder::Found>{{one.manifest().step, folder}};
  }
  if (!fs::is_directory(folder, ignored)) return inputError(quotedPath(folder) + " is not a folder");
  return CheckpointFolder::list(folder);
}

Result<Checkpoint> chosenCheckpoint(const std::string& folder, int64_t step) {
  DTC_TRY(const auto found, checkpointsIn(folder));
  if (found.empty()) return inputError(quotedPath(folder) + " has no checkpoint");
  const auto at = step < 0 ? found.end() - 1 : std::ranges::find(found, step, &CheckpointFolder::Found::step);
  if (at == found.end())
    return inputError(quotedPath(folder) + " has no checkpoint of step " + std::to_string(step) +
                      "; it has those of " +
                      joined(found, ", ", [](const auto& f) { return std::to_string(f.step); }));
  return Checkpoint::open(at->path);
}

} // namespace dtc
