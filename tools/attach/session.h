/* attach/session.h - runs the command in a session of its own. */
#pragma once

struct wish;

/*
 * Call run(wish) in a child that has a session of its own, and return what that returns.  Linux shares the
 * processor among sessions (autogroup), so on a busy machine this one gets it in time, as a rule.
 * Signals that end the command are passed on; if this process is killed, so is the child.
 */
int session_run(const struct wish *wish, int (*run)(const struct wish *wish));
