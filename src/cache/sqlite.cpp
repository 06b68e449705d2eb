#include "cache/sqlite.h"

namespace toroid {
namespace {

[[noreturn]] void fail(sqlite3* database, int code) {
  const char* message = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const int extended = database != nullptr ? sqlite3_extended_errcode(database) : code;
  throw SqliteError(extended, message);
}

}  // namespace

Database::Database(const std::filesystem::path& path) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(opened);  // a failed open leaves a handle, too
  if (code != SQLITE_OK) fail(opened, code);
}

void Database::execute(const char* statements) {
  const int code = sqlite3_exec(handle_.get(), statements, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(handle_.get(), code);
}

Statement::Statement(const Database& database, std::string_view text) : database_(database.handle()) {
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v2(database_, text.data(), static_cast<int>(text.size()), &prepared, nullptr);
  handle_.reset(prepared);
  check(code);
}

void Statement::bind_one(int index, std::string_view text) {
  check(sqlite3_bind_text64(handle_.get(), index, text.data() != nullptr ? text.data() : "", text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind_one(int index, const BlobView& blob) {
  check(sqlite3_bind_blob64(handle_.get(), index, blob.bytes.data() != nullptr ? blob.bytes.data() : "", blob.bytes.size(), SQLITE_STATIC));
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail(database_, code);
  return false;
}

std::string_view Statement::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(handle_.get(), column));
  return data == nullptr ? std::string_view{} : std::string_view(data, static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column)));
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) fail(database_, code);
}

Transaction::~Transaction() {
  if (open_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace toroid
