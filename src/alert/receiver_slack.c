/* receiver_slack.c - the form of Slack's incoming webhooks, which Mattermost, Rocket.Chat and
 * Discord (…/slack) take too: a text, and an attachment with a colour. */
#include "alert/receiver.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { SLACK_TEXT_MAX = 8192 };

/* Slack reads <, > and & as markup. */
static void slack_escape(struct sonde_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '&') sonde_buf_puts(out, "&amp;");
        else if (*text == '<') sonde_buf_puts(out, "&lt;");
        else if (*text == '>') sonde_buf_puts(out, "&gt;");
        else sonde_buf_putc(out, *text);
    }
}

static const char *slack_colour(const struct alert_notice *n)
{
    if (!n->firing) return "good";
    return n->what.severity == SONDE_SEVERITY_CRITICAL ? "danger"
           : n->what.severity == SONDE_SEVERITY_WARNING ? "warning" : "#439fe0";
}

static void slack_field(struct sonde_buf *out, const char *title, const char *value)
{
    struct sonde_buf text;
    sonde_buf_init(&text, SLACK_TEXT_MAX);
    slack_escape(&text, value);
    sonde_json_open(out, '{');
    sonde_json_str(out, "title", title);
    sonde_json_str(out, "value", text.data ? text.data : "");
    sonde_json_bool(out, "short", strlen(value) < 40);
    sonde_json_close(out, '}');
    sonde_buf_release(&text);
}

static void slack_body(const struct alert_notice *n, const struct alert_origin *o,
                       struct sonde_buf *out)
{
    char link[600], number[80];
    const char *severity = sonde_severity_name((enum sonde_severity)n->what.severity);
    struct sonde_buf text;
    sonde_buf_init(&text, SLACK_TEXT_MAX);
    sonde_buf_printf(&text, "[%s] %s: ", n->firing ? "FIRING" : "RESOLVED", severity);
    slack_escape(&text, n->what.summary);
    sonde_json_open(out, '{');
    sonde_json_str(out, "text", text.data ? text.data : n->what.kind);
    sonde_json_key_open(out, "attachments", '[');
    sonde_json_open(out, '{');
    sonde_json_str(out, "color", slack_colour(n));
    sonde_json_str(out, "fallback", text.data ? text.data : n->what.kind);
    sonde_json_str(out, "title", n->what.kind);
    if (alert_notice_link(n, o, link, sizeof(link))) sonde_json_str(out, "title_link", link);
    sonde_json_key_open(out, "fields", '[');
    slack_field(out, "severity", severity);
    if (o->host[0]) slack_field(out, "host", o->host);
    for (size_t i = 0; i < n->what.labels.count; i++) {
        slack_field(out, n->what.labels.at[i].name, n->what.labels.at[i].value);
    }
    sonde_json_close(out, ']');
    snprintf(number, sizeof(number), "sonde %s", n->id);
    sonde_json_str(out, "footer", number);
    const double at_s = n->firing ? n->fired_s : n->ended_s;
    sonde_json_u64(out, "ts", at_s > 0 ? (uint64_t)at_s : 0);
    sonde_json_close(out, '}');
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    sonde_buf_release(&text);
}

extern const struct alert_receiver_ops alert_receiver_slack;
const struct alert_receiver_ops alert_receiver_slack = { .name = "slack", .path = "", .posts = 1,
                                                         .body = slack_body };
