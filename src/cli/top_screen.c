/* top_screen.c - see top_screen.h.
 *
 * ncurses sends only the cells that changed, so the whole grid is drawn each time and nothing
 * flickers. Its own handlers for SIGINT and SIGTERM are replaced: they would free and print in a
 * handler. Ours note the signal for the loop; those for crashes write the few bytes and the
 * ioctl that put the terminal right, which is all a handler may do. */
#include "cli/top_screen.h"

#include "present/top/view.h" /* before term.h, which makes `columns` and others macros */
#include "base/array.h"
#include "sonde/sonde.h"

#include <assert.h>
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };

static SCREEN *screen;
static int colours;                     /* 1 = the pairs are set up */
static int signal_pipe[2] = { -1, -1 };
static struct sigaction before[SONDE_COUNT(ending)];
static struct termios saved_termios;
static char reset_text[128];            /* leaves the alternate screen, shows the cursor */
static size_t reset_len;

static void on_ending(int number)
{
    const int saved = errno;
    const unsigned char byte = (unsigned char)number;
    (void)!write(signal_pipe[1], &byte, 1);
    errno = saved;
}

static void on_crash(int number)
{
    (void)!write(STDOUT_FILENO, reset_text, reset_len);
    tcsetattr(STDIN_FILENO, TCSANOW, &saved_termios);
    /* SA_RESETHAND has put the default back: die of it, with a core if that is wanted. */
    raise(number);
}

static void add_reset(const char *capability)
{
    const char *text = tigetstr(capability);
    if (!text || text == (const char *)-1) return;
    const size_t n = strlen(text);
    if (reset_len + n > sizeof(reset_text)) return;
    memcpy(reset_text + reset_len, text, n);
    reset_len += n;
}

static void catch_signals(void)
{
    struct sigaction end = { .sa_handler = on_ending, .sa_flags = SA_RESTART };
    struct sigaction crash = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
    sigfillset(&end.sa_mask);
    sigemptyset(&crash.sa_mask);
    for (size_t i = 0; i < SONDE_COUNT(ending); i++) sigaction(ending[i], &end, &before[i]);
    for (size_t i = 0; i < SONDE_COUNT(crashes); i++) sigaction(crashes[i], &crash, NULL);
}

static int check_terminal(struct sonde_err *err)
{
    static const char advice[] = "`sonde top --once` prints one frame as text";
    const char *term = getenv("TERM");
    int found = 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "input and output must be a terminal; %s", advice);
    }
    if (!term || !term[0]) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "TERM is not set, so the kind of terminal is not known; %s", advice);
    }
    if (setupterm(term, STDOUT_FILENO, &found) != OK) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "the terminal type '%s' (TERM) is not known here; try "
                             "TERM=xterm-256color, or install ncurses-term; %s", term, advice);
    }
    const char *text = tigetstr("cup");
    const int moves_cursor = text && text != (const char *)-1;
    del_curterm(set_curterm(NULL)); /* newterm reads it again for itself */
    if (!moves_cursor) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "the terminal type '%s' (TERM) cannot move its cursor; %s", term,
                             advice);
    }
    return 0;
}

int sonde_top_screen_open(int colour, struct sonde_err *err)
{
    assert(!screen);
    const int rc = check_terminal(err);
    if (rc) return rc;
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK)) {
        return sonde_err_set(err, SONDE_EIO, "pipe: %s", strerror(errno));
    }
    tcgetattr(STDIN_FILENO, &saved_termios);
    screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        return sonde_err_set(err, SONDE_EIO, "ncurses cannot use the terminal type '%s' (TERM)",
                             getenv("TERM"));
    }
    reset_len = 0;
    add_reset("sgr0");
    add_reset("cnorm");
    add_reset("rmcup");
    catch_signals();

    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25); /* an Esc that starts no sequence is a key at once */
    curs_set(0);
    colours = 0;
    if (colour && has_colors() && start_color() == OK) {
        static const short codes[] = { 0, COLOR_GREEN, COLOR_YELLOW, COLOR_RED, COLOR_CYAN };
        use_default_colors();
        for (short i = 1; i < (short)SONDE_COUNT(codes); i++) init_pair(i, codes[i], -1);
        colours = 1;
    }
    return 0;
}

void sonde_top_screen_close(void)
{
    if (!screen) return;
    endwin();
    delscreen(screen);
    screen = NULL;
    for (size_t i = 0; i < SONDE_COUNT(ending); i++) sigaction(ending[i], &before[i], NULL);
    for (size_t i = 0; i < SONDE_COUNT(crashes); i++) signal(crashes[i], SIG_DFL);
    close(signal_pipe[0]);
    close(signal_pipe[1]);
}

void sonde_top_screen_size(int *width, int *height)
{
    assert(screen);
    getmaxyx(stdscr, *height, *width);
}

/* ---- Showing -------------------------------------------------------------------------------- */

static attr_t top_screen_attributes(uint8_t style)
{
    attr_t a = A_NORMAL;
    if (style & SONDE_STYLE_BOLD) a |= A_BOLD;
    if (style & SONDE_STYLE_REVERSE) a |= A_REVERSE;
    /* Dim text on a reversed row cannot be read on many terminals. */
    else if (style & SONDE_STYLE_DIM) a |= A_DIM;
    return a;
}

static void show_cell(const struct sonde_cell *c, int x, int y)
{
    wchar_t text[SONDE_CELL_CODES + 1] = { 0 };
    for (int i = 0; i < SONDE_CELL_CODES && c->code[i]; i++) text[i] = (wchar_t)c->code[i];
    /* The C library knows better how wide this terminal's characters are: where it disagrees
     * the line would shift. */
    if (text[0] >= 0x80 && wcwidth(text[0]) != c->cells) wcscpy(text, L"?");

    cchar_t out;
    const short pair = colours && !(c->style & SONDE_STYLE_REVERSE)
                           ? (short)(c->style & SONDE_STYLE_COLOUR) : 0;
    if (setcchar(&out, text, top_screen_attributes(c->style), pair, NULL) == OK) {
        mvadd_wch(y, x, &out);
    }
}

void sonde_top_screen_show(const struct sonde_grid *g)
{
    assert(screen);
    erase();
    for (int y = 0; y < g->height; y++) {
        for (int x = 0; x < g->width; x++) {
            const struct sonde_cell *c = sonde_grid_at(g, x, y);
            if (c->cells) show_cell(c, x, y);
        }
    }
    refresh();
}

/* ---- Keys ----------------------------------------------------------------------------------- */

static int top_screen_translate(wint_t code, int is_function_key)
{
    static const struct { int from, to; } function_keys[] = {
        { KEY_UP, SONDE_KEY_UP }, { KEY_DOWN, SONDE_KEY_DOWN }, { KEY_PPAGE, SONDE_KEY_PAGE_UP },
        { KEY_NPAGE, SONDE_KEY_PAGE_DOWN }, { KEY_HOME, SONDE_KEY_HOME },
        { KEY_END, SONDE_KEY_END }, { KEY_ENTER, SONDE_KEY_ENTER },
        { KEY_BTAB, SONDE_KEY_BACK_TAB }, { KEY_BACKSPACE, SONDE_KEY_BACKSPACE },
        { KEY_DC, SONDE_KEY_BACKSPACE }, { KEY_RIGHT, SONDE_KEY_ENTER },
        { KEY_LEFT, SONDE_KEY_ESC },
    };
    static const struct { int from, to; } characters[] = {
        { '\r', SONDE_KEY_ENTER }, { '\n', SONDE_KEY_ENTER }, { 0x1b, SONDE_KEY_ESC },
        { '\t', SONDE_KEY_TAB }, { 0x7f, SONDE_KEY_BACKSPACE }, { '\b', SONDE_KEY_BACKSPACE },
    };
    if (is_function_key) {
        for (size_t i = 0; i < SONDE_COUNT(function_keys); i++) {
            if (function_keys[i].from == (int)code) return function_keys[i].to;
        }
        return 0;
    }
    for (size_t i = 0; i < SONDE_COUNT(characters); i++) {
        if (characters[i].from == (int)code) return characters[i].to;
    }
    return code < 0x110000 ? (int)code : 0;
}

enum sonde_top_event sonde_top_screen_wait(int fd, int *key)
{
    assert(screen);
    for (;;) {
        wint_t code;
        const int kind = get_wch(&code);
        if (kind == KEY_CODE_YES && code == KEY_RESIZE) return SONDE_TOP_EVENT_RESIZE;
        if (kind != ERR) {
            *key = top_screen_translate(code, kind == KEY_CODE_YES);
            if (*key) return SONDE_TOP_EVENT_KEY;
            continue;
        }
        struct pollfd fds[] = { { .fd = signal_pipe[0], .events = POLLIN },
                                { .fd = fd, .events = POLLIN },
                                { .fd = STDIN_FILENO, .events = POLLIN } };
        if (poll(fds, SONDE_COUNT(fds), -1) < 0) continue; /* SIGWINCH: get_wch tells */
        unsigned char number;
        if (fds[0].revents && read(signal_pipe[0], &number, 1) == 1) {
            *key = number;
            return SONDE_TOP_EVENT_SIGNAL;
        }
        if (fds[1].revents) return SONDE_TOP_EVENT_FD;
        if (fds[2].revents & (POLLHUP | POLLERR | POLLNVAL)) return SONDE_TOP_EVENT_CLOSED;
    }
}
