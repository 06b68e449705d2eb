// The process that a command is: its standard streams, whatever they are, signals, and processes. None of this is the libraries' business,
// which leave those of a host alone.
#pragma once

#include <exception>

namespace toroid::cli {

// To be called first.
//
//  - A standard stream that is closed is /dev/null, opened so that its use fails: no file of ours becomes number 0, 1 or 2 and gets what
//    was meant for a stream.
//  - What cannot be written to standard error is lost and nothing else: a report that nobody reads stops no work.
//  - Writes beyond the limit on the size of files, and files cut short while they are mapped, are errors, not signals.
//  - Whatever compilers leave behind becomes a child of this process.
void prepare_process();

// Kills and reaps such children, at the end.
void end_children();

// Writes out what was printed. `thrown`: what the command ended with, or null. Throws Error{Environment} when not all could be written, if
// it is not another error that ended the command.
void finish_output(const std::exception_ptr& thrown);

}  // namespace toroid::cli
