// The part of SQLite's C API that the store uses, with owners and errors.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace toroid {

// Caught inside cache/: a store turns every one of these into a miss or an entry not written.
class SqliteError : public std::runtime_error {
 public:
  SqliteError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  // The file is damaged or is no database. The statements that are run here are right for a sound file, so one that is refused as wrong
  // (SQLITE_ERROR), or for what the tables forbid, met a damaged description of the tables or a damaged index.
  bool is_corruption() const {
    const int code = code_ & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR || code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH;
  }
  // Somebody else held a lock for as long as we wait.
  bool is_busy() const { return (code_ & 0xff) == SQLITE_BUSY; }
  // Locks do not work here; SQLite tried for ten seconds before it said so.
  bool is_without_locks() const { return (code_ & 0xff) == SQLITE_PROTOCOL; }
  // The file at this place is not the one that was opened.
  bool is_moved() const { return code_ == SQLITE_READONLY_DBMOVED; }

 private:
  int code_;
};

class Database {
 public:
  // Opens or creates. Not for use by two threads at once.
  explicit Database(const std::filesystem::path& path);
  void execute(const char* statements);
  sqlite3* handle() const { return handle_.get(); }

 private:
  struct Closer {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Closer> handle_;
};

// Marks a value as bytes rather than text.
struct BlobView {
  std::string_view bytes;
};

// One run of a statement: bind values in order, step through rows. Bound and returned text is not copied: values must
// outlive the statement, columns the next step.
class Statement {
 public:
  Statement(const Database& database, std::string_view text);

  template <class... Values>
  Statement& bind(const Values&... values) {
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  bool step();  // true when there is a row
  void run() {
    while (step()) {
    }
  }
  int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  std::string_view bytes(int column) const;

 private:
  void bind_one(int index, int64_t value) { check(sqlite3_bind_int64(handle_.get(), index, value)); }
  void bind_one(int index, std::string_view text);
  void bind_one(int index, const BlobView& blob);
  void check(int code) const;

  struct Closer {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Closer> handle_;
};

// Everything until commit() happens whole or not at all. Takes the write lock at once, so it cannot fail half-way for
// a lock.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace toroid
