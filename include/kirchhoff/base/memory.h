#pragma once

namespace kirchhoff {

/// For programs that do the same work many times, as training does: memory that is freed stays with the process and is
/// used again, instead of going back to the system, which would hand it out cleared, page by page (a twelfth of a
/// training step). For the whole process, and only where the C library lets itself be told so (glibc).
void keep_freed_memory();

}  // namespace kirchhoff
