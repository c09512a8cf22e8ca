"""The shape of `state.db` and `history.db` as named migrations, each run once and never changed."""

from collections.abc import Callable

import apsw


def m010_inbox(connection: apsw.Connection) -> None:
    """What has come in over a channel, until it was answered; afterwards its number alone, so that it comes once.

    `process` names the one that answers it, `within` the number whose turn hears it, when that is another's. A turn
    names what it answers in `inbox`, 0 for what came another way.
    """
    connection.execute("""
        CREATE TABLE inbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,
            text TEXT NOT NULL,
            who TEXT NOT NULL,
            origin TEXT NOT NULL,
            external TEXT NOT NULL,
            attachments TEXT NOT NULL, -- a JSON list of paths
            at REAL NOT NULL,
            process TEXT NOT NULL DEFAULT '',
            within INTEGER NOT NULL DEFAULT 0,
            done INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE UNIQUE INDEX inbox_once ON inbox (key, external) WHERE external != '';
        CREATE INDEX inbox_open ON inbox (id) WHERE NOT done;
        ALTER TABLE turns ADD COLUMN inbox INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX turns_of_inbox ON turns (inbox) WHERE inbox > 0;
    """)


def m011_approvals(connection: apsw.Connection) -> None:
    """Calls that wait for the owner's yes, what became of them, and those that were allowed for good.

    `process` is the one that makes the call, `answered` when it was answered in seconds since the epoch; lists are
    JSON. A number is never used again: a person may still mean the call that had it. A letter that asks names it.
    """
    connection.execute("""
        CREATE TABLE approvals (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            nonce TEXT NOT NULL UNIQUE,
            session TEXT NOT NULL,
            chat TEXT NOT NULL,
            origin TEXT NOT NULL,
            asked_by TEXT NOT NULL,
            call TEXT NOT NULL,
            effect TEXT NOT NULL,
            rule TEXT NOT NULL,
            why TEXT NOT NULL,
            means TEXT NOT NULL,
            bound TEXT NOT NULL,
            digest TEXT NOT NULL,
            heard TEXT NOT NULL,
            question TEXT NOT NULL,
            at REAL NOT NULL,
            expires REAL NOT NULL,
            state TEXT NOT NULL,
            answered_by TEXT NOT NULL,
            outcome TEXT NOT NULL,
            process TEXT NOT NULL DEFAULT '',
            answered REAL NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX approvals_open ON approvals (id) WHERE state IN ('waiting', 'running');
        CREATE TABLE always (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            digest TEXT NOT NULL UNIQUE,
            question TEXT NOT NULL,
            at REAL NOT NULL,
            by TEXT NOT NULL
        ) STRICT;
        ALTER TABLE outbox ADD COLUMN approval INTEGER NOT NULL DEFAULT 0;
    """)


def m012_heard(connection: apsw.Connection) -> None:
    """The untrusted sources that a turn rests on, and what a sub-agent's task began with: JSON lists.

    Earlier turns are judged by the tools that they have called.
    """
    connection.execute("""
        ALTER TABLE turns ADD COLUMN heard TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE tasks ADD COLUMN taint TEXT NOT NULL DEFAULT '[]';
    """)
    for tool in ("read_file", "read_result", "exec", "serial", "subagent", "spawn_status"):
        connection.execute(
            "UPDATE turns SET heard = ?1 WHERE id IN (SELECT turn FROM messages WHERE instr(calls, ?2))",
            (f'["{tool}"]', f'"{tool}"'),
        )


def m013_foreign(connection: apsw.Connection) -> None:
    """What of a message is not the word of whoever has sent it, by name: a JSON list."""
    connection.execute("ALTER TABLE inbox ADD COLUMN foreign_parts TEXT NOT NULL DEFAULT '[]'")


def m014_ledger(connection: apsw.Connection) -> None:
    """What models have taken, by day, model, cause and channel: tokens in and out, and money in the owner's currency.

    A request is in it before it is made, as an estimate; `estimated` are the tokens that no server has counted yet.
    What was counted for turns before this table came is put into it, as far as it is known what that was for.
    """
    connection.execute("""
        CREATE TABLE ledger (
            day TEXT NOT NULL,
            model TEXT NOT NULL,
            cause TEXT NOT NULL,
            channel TEXT NOT NULL,
            requests INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            estimated INTEGER NOT NULL,
            money REAL NOT NULL,
            PRIMARY KEY (day, model, cause, channel)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO ledger
            SELECT day, provider,
                CASE WHEN key = 'heartbeat' THEN 'heartbeat'
                    WHEN key GLOB 'job [0-9]*' THEN 'cron ' || substr(key, 5, instr(substr(key, 5) || ' ', ' ') - 1)
                    ELSE 'chat' END AS cause,
                CASE WHEN key GLOB 'telegram:*' THEN 'telegram' WHEN key = 'page' THEN 'page'
                    ELSE 'terminal' END AS channel,
                sum(steps), sum(prompt), sum(completion), 0, 0.0
            FROM (
                SELECT substr(at, 1, 10) AS day, key, provider, steps, prompt_tokens AS prompt,
                    completion_tokens AS completion FROM turns JOIN sessions ON sessions.id = session
                UNION ALL SELECT day, key, provider, 0, prompt_tokens, completion_tokens FROM spent
            ) WHERE prompt + completion > 0 GROUP BY 1, 2, 3, 4;
    """)


def m016_rights(connection: apsw.Connection) -> None:
    """What a planned command may do; one that was planned before had both rights, and keeps them."""
    for column in ("may_write", "may_network"):
        connection.execute(f"ALTER TABLE jobs ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE jobs SET may_write = 1, may_network = 1 WHERE kind = 'command'")


def m018_lists(connection: apsw.Connection) -> None:
    """The question that a kept call is shown by: the number of its first call, 0 before it was asked."""
    connection.execute("ALTER TABLE approvals ADD COLUMN listed INTEGER NOT NULL DEFAULT 0")
    connection.execute("UPDATE approvals SET listed = id")


def m017_foreign_files(connection: apsw.Connection) -> None:
    """Files that turns have written which had read others' words, by their paths; `heard` is a JSON list."""
    connection.execute("""
        CREATE TABLE foreign_files (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            path TEXT NOT NULL UNIQUE,
            heard TEXT NOT NULL,
            at REAL NOT NULL
        ) STRICT;
    """)


# How the database came to its present shape: small functions, run once each, in this order, by name.
#
# A function is never changed after a release; a change of shape is a new function at the end.


def m001_conversations(connection: apsw.Connection) -> None:
    """Sessions, the turns in them, the messages of a turn exactly as they went to and came from a model."""
    connection.execute("""
        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            shown_from INTEGER NOT NULL DEFAULT 0 -- older turns stay here and are no longer sent to a model
        ) STRICT;
        CREATE TABLE turns (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES sessions,
            at TEXT NOT NULL,
            provider TEXT NOT NULL,
            steps INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            stopped TEXT NOT NULL
        ) STRICT;
        CREATE INDEX turns_of_session ON turns (session, id);
        CREATE TABLE messages (
            id INTEGER PRIMARY KEY,
            turn INTEGER NOT NULL REFERENCES turns,
            role TEXT NOT NULL,
            text TEXT NOT NULL,
            calls TEXT NOT NULL DEFAULT '[]',
            call_id TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE INDEX messages_of_turn ON messages (turn, id);
    """)


def m002_acts(connection: apsw.Connection) -> None:
    """Calls that change something, written down before they run; a row outlives its turn only after a cut.

    A number is never used again: the one who was shown an act crosses it off by its number, perhaps much later.
    """
    connection.execute("""
        CREATE TABLE acts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            at TEXT NOT NULL,
            tool TEXT NOT NULL,
            arguments TEXT NOT NULL,
            process TEXT NOT NULL
        ) STRICT;
    """)


def m003_jobs(connection: apsw.Connection) -> None:
    """Reminders; `due` in seconds since the epoch, `claimed` by the process that is telling one.

    A number is never used again: a person, or a model, may still mean the reminder that had it.
    """
    connection.execute("""
        CREATE TABLE jobs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            message TEXT NOT NULL,
            due REAL NOT NULL,
            claimed TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE INDEX jobs_by_due ON jobs (due);
    """)


def m004_calibration(connection: apsw.Connection) -> None:
    """How many bytes went into the tokens that a server counted, by model; older requests fade."""
    connection.execute("""
        CREATE TABLE calibration (
            model TEXT PRIMARY KEY,
            bytes REAL NOT NULL CHECK (bytes >= 0),
            tokens REAL NOT NULL CHECK (tokens >= 0)
        ) STRICT;
    """)


def m005_pulse(connection: apsw.Connection) -> None:
    """Open tasks, kept for a while when they are done; marks say what was done when, a name and a text each.

    `since` and `done` are the owner's local time, `done_at` seconds since the epoch. A number is never used again: a
    conversation may still mean the task that had it.
    """
    connection.execute("""
        CREATE TABLE pulse (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            text TEXT NOT NULL,
            priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 10),
            session TEXT NOT NULL,
            source TEXT NOT NULL DEFAULT '', -- what it is from when it is not the owner's word
            since TEXT NOT NULL,
            done TEXT NOT NULL DEFAULT '',
            done_at REAL
        ) STRICT;
        CREATE TABLE marks (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT;
    """)


def m006_clock(connection: apsw.Connection) -> None:
    """Jobs of every kind and plan, where a reminder had one moment, and what is still to be told of them.

    `due` is the anchor of the plan; `boot` and `mono` say when that is by the clock of one boot that nobody can set.
    A cron job's slots up to `after` are decided, and those within the spans `done` were done. `claimed` names the
    process that runs it.
    """
    for column in (
        "kind TEXT NOT NULL DEFAULT 'reminder'",
        "plan TEXT NOT NULL DEFAULT 'at'",
        "spec TEXT NOT NULL DEFAULT ''",
        "zone TEXT NOT NULL DEFAULT ''",
        "boot TEXT NOT NULL DEFAULT ''",
        "mono REAL NOT NULL DEFAULT 0",
        "after REAL NOT NULL DEFAULT 0",
        "done TEXT NOT NULL DEFAULT '[]'",
        "catch_up TEXT NOT NULL DEFAULT 'once'",
        "deliver TEXT NOT NULL DEFAULT 'always'",
        "enabled INTEGER NOT NULL DEFAULT 1",
        "rounds INTEGER NOT NULL DEFAULT 0",
        "last_slot TEXT NOT NULL DEFAULT ''",
        "last_run REAL NOT NULL DEFAULT 0",
        "last_status TEXT NOT NULL DEFAULT ''",
        "last_error TEXT NOT NULL DEFAULT ''",
        "failures INTEGER NOT NULL DEFAULT 0",
        "told TEXT NOT NULL DEFAULT ''",
    ):
        connection.execute(f"ALTER TABLE jobs ADD COLUMN {column}")
    connection.execute("""
        DROP INDEX jobs_by_due;
        UPDATE jobs SET claimed = '';
        CREATE TABLE outbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            text TEXT NOT NULL,
            at REAL NOT NULL,
            begun TEXT NOT NULL DEFAULT '' -- the process that tells it
        ) STRICT;
    """)


def m007_heartbeat(connection: apsw.Connection) -> None:
    """Heartbeats in which a model was asked, `day` by the owner's calendar, and what is known of the checklist's lines.

    `mono` are the seconds of that `boot`, which no change of the date moves.
    A number is never used again, so that a process can tell whether another one has been quicker.
    """
    connection.execute("""
        CREATE TABLE beats (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            at REAL NOT NULL,
            day TEXT NOT NULL,
            boot TEXT NOT NULL,
            mono REAL NOT NULL,
            tokens INTEGER NOT NULL,
            outcome TEXT NOT NULL,
            session TEXT NOT NULL DEFAULT '',
            text TEXT NOT NULL DEFAULT ''
        ) STRICT;
        CREATE TABLE beat_lines (
            line TEXT PRIMARY KEY,
            after REAL NOT NULL,
            since REAL NOT NULL,
            told INTEGER NOT NULL,
            seen TEXT NOT NULL
        ) STRICT;
    """)


def m008_sessions(connection: apsw.Connection) -> None:
    """Several conversations of one chat, of which one is open; turns taken back; summaries; results kept whole.

    A session is a conversation; `key` names the chat, as `channel:chat:thread`, and the one without `ended` is open.
    A summary says what was said up to a turn, `upto`, that one included. `results` are those too long to be shown
    whole, `spent` the tokens of turns that are not kept any more. The numbers of sessions, turns and results are never
    used again: a model, an index, or a summary that is being written may still mean the one that had it.
    """
    connection.execute("""
        CREATE TABLE new_sessions (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,
            shown_from INTEGER NOT NULL DEFAULT 0, -- older turns stay here and are no longer sent to a model
            begun TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',
            flushed INTEGER NOT NULL DEFAULT 0 -- the newest turn when a model last wrote down what must outlast it
        ) STRICT;
        INSERT INTO new_sessions (id, key, shown_from, begun)
            SELECT id, key, shown_from, coalesce((SELECT at FROM turns WHERE session = sessions.id ORDER BY id), '')
            FROM sessions;
        DROP TABLE sessions;
        ALTER TABLE new_sessions RENAME TO sessions;
        CREATE UNIQUE INDEX open_sessions ON sessions (key) WHERE ended = '';
        CREATE TABLE new_turns (
            id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions,
            at TEXT NOT NULL, provider TEXT NOT NULL, steps INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, stopped TEXT NOT NULL,
            undone INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        INSERT INTO new_turns
            SELECT id, session, at, provider, steps, prompt_tokens, completion_tokens, stopped, 0 FROM turns;
        DROP TABLE turns;
        ALTER TABLE new_turns RENAME TO turns;
        CREATE INDEX turns_of_session ON turns (session, id);
        CREATE TABLE summaries (
            id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions,
            upto INTEGER NOT NULL, at TEXT NOT NULL, text TEXT NOT NULL
        ) STRICT;
        CREATE INDEX summaries_of_session ON summaries (session, id);
        CREATE TABLE results (
            id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions,
            at TEXT NOT NULL, tool TEXT NOT NULL, text TEXT NOT NULL,
            process TEXT NOT NULL, turn INTEGER NOT NULL DEFAULT 0 -- that of this process which was kept next
        ) STRICT;
        CREATE INDEX results_of_session ON results (session, id);
        CREATE TABLE spent (
            day TEXT NOT NULL, key TEXT NOT NULL, provider TEXT NOT NULL,
            prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
            PRIMARY KEY (day, key, provider)
        ) STRICT, WITHOUT ROWID;
    """)


def m009_tasks(connection: apsw.Connection) -> None:
    """What sub-agents were given to do, how far they are, and what they have said and heard so far.

    `session` is the chat that is told the result, `parent` the task that asked for it (0 for a turn), `flow` the
    number of its workflow's first task, `needs` the numbers of those that have to be done before. `waits` names the
    process in which whoever asked waits for the result, and is told by nobody else. `claimed` names the process that
    works on it, or means to; `letter` is the one that tells the chat of it, -1 when whoever asked knows; `heard` is 1
    once a model was shown it in the chat. A number is never used again.
    """
    connection.execute("""
        CREATE TABLE tasks (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL,
            parent INTEGER NOT NULL DEFAULT 0,
            depth INTEGER NOT NULL DEFAULT 1,
            flow INTEGER NOT NULL DEFAULT 0,
            name TEXT NOT NULL,
            text TEXT NOT NULL,
            mode TEXT NOT NULL,
            tools TEXT NOT NULL, -- a JSON list of names, null for all
            needs TEXT NOT NULL DEFAULT '[]',
            steps INTEGER NOT NULL,
            seconds REAL NOT NULL,
            tokens INTEGER NOT NULL,
            waits TEXT NOT NULL DEFAULT '',
            status TEXT NOT NULL DEFAULT 'waiting',
            claimed TEXT NOT NULL DEFAULT '',
            tries INTEGER NOT NULL DEFAULT 0,
            used_steps INTEGER NOT NULL DEFAULT 0,
            used_seconds REAL NOT NULL DEFAULT 0,
            used_tokens INTEGER NOT NULL DEFAULT 0,
            result TEXT NOT NULL DEFAULT '',
            letter INTEGER NOT NULL DEFAULT 0,
            heard INTEGER NOT NULL DEFAULT 0,
            asked REAL NOT NULL,
            ended REAL NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX tasks_by_status ON tasks (status);
        CREATE TABLE task_messages (
            task INTEGER NOT NULL REFERENCES tasks,
            place INTEGER NOT NULL,
            message TEXT NOT NULL, -- a JSON list: role, text, calls, call_id
            PRIMARY KEY (task, place)
        ) STRICT, WITHOUT ROWID;
    """)


def m015_pulse_priority(connection: apsw.Connection) -> None:
    """Turn the priorities of tasks round: 1 is the most urgent now, as everywhere else; the usual 5 stays."""
    connection.execute("UPDATE pulse SET priority = max(1, 10 - priority)")


def m019_subagents(connection: apsw.Connection) -> None:
    """Sub-agents were called helpers: the conversations, causes and origins that have the old name get the new one."""
    for table, column in (("sessions", "key"), ("acts", "session"), ("approvals", "session")):
        connection.execute(
            f"UPDATE {table} SET {column} = 'subagent' || substr({column}, 7) WHERE {column} GLOB 'helper [0-9]*'"  # noqa: S608 - our own names
        )
    connection.execute("UPDATE approvals SET origin = 'subagent' WHERE origin = 'helper'")
    connection.execute("UPDATE ledger SET cause = 'subagent' WHERE cause = 'helper'")


def m020_ledger_details(connection: apsw.Connection) -> None:
    """Of a model's tokens, how many were read from the server's cache and how many went into reasoning."""
    for name in ("cached", "reasoning"):
        connection.execute(f"ALTER TABLE ledger ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0")


def m021_prefix(connection: apsw.Connection) -> None:
    """What every request of a conversation begins with, so that a server with a prompt cache need not read it again."""
    connection.execute("ALTER TABLE sessions ADD COLUMN prefix TEXT NOT NULL DEFAULT ''")


def m022_asked_by(connection: apsw.Connection) -> None:
    """Who else than the owner has asked for a turn, such as telegram:12345: in a group they share the conversation."""
    connection.execute("ALTER TABLE turns ADD COLUMN asked_by TEXT NOT NULL DEFAULT ''")


def m023_agents(connection: apsw.Connection) -> None:
    """Which agent a conversation is held with, '' for the home's own; and the pages that are a person's own with one.

    `agent` is the UUID of its key, `person` the name in [people], '' for the owner, `version` counts the writes.
    """
    connection.execute("ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT ''")
    connection.execute("""
        CREATE TABLE user_context_files (
            agent TEXT NOT NULL,
            person TEXT NOT NULL,
            name TEXT NOT NULL,
            text TEXT NOT NULL,
            version INTEGER NOT NULL DEFAULT 1,
            at TEXT NOT NULL,
            PRIMARY KEY (agent, person, name)
        ) STRICT, WITHOUT ROWID
    """)


def m024_job_agents(connection: apsw.Connection) -> None:
    """Which agent does a job, '' for the home's own."""
    connection.execute("ALTER TABLE jobs ADD COLUMN agent TEXT NOT NULL DEFAULT ''")


def m025_shared(connection: apsw.Connection) -> None:
    """What a store that several boards share knows of this home; nothing in a home that shares none.

    A row of `shared_rows` is `local` here and `id` there; `mark` changes with what it says, and is 'erased' once it is
    deleted here. A page's `base` is the compressed text that both had last, as its `version` there.
    """
    connection.execute("""
        CREATE TABLE shared_state (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE shared_rows (
            kind TEXT NOT NULL, local TEXT NOT NULL, id TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (kind, local)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE shared_pages (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, place TEXT NOT NULL, path TEXT NOT NULL, version INTEGER NOT NULL,
            digest TEXT NOT NULL, base BLOB NOT NULL, stamp TEXT NOT NULL, chunks TEXT NOT NULL
        ) STRICT;
    """)


def m026_delegations(connection: apsw.Connection) -> None:
    """Which agent does a task and which one has delegated it, and for whom it was asked: see Task, and Approval."""
    for name, default in (("agent", ""), ("asker", ""), ("who", ""), ("origin", "subagent")):
        connection.execute(f"ALTER TABLE tasks ADD COLUMN {name} TEXT NOT NULL DEFAULT '{default}'")
    connection.execute("ALTER TABLE approvals ADD COLUMN told TEXT NOT NULL DEFAULT ''")


def m027_skill_grants(connection: apsw.Connection) -> None:
    """Who besides the owner may use a skill: everyone, person:NAME or agent:KEY; an agent's is pinned to a version."""
    connection.execute("""
        CREATE TABLE skill_grants (
            skill TEXT NOT NULL,
            grantee TEXT NOT NULL,
            pinned TEXT NOT NULL,
            granted_by TEXT NOT NULL,
            granted_at TEXT NOT NULL,
            PRIMARY KEY (skill, grantee)
        ) STRICT, WITHOUT ROWID
    """)


def m028_approval_agents(connection: apsw.Connection) -> None:
    """Whose call waits: it is made with that agent's tools and folder, '' for the home's own."""
    connection.execute("ALTER TABLE approvals ADD COLUMN agent TEXT NOT NULL DEFAULT ''")


def m029_whose(connection: apsw.Connection) -> None:
    """Whose a conversation is, by the name in [people], '' for the owner; with whom and for whom models were used.

    `agent` is the key, '' for the home's own. What was used before counts as the owner's with that one.
    """
    connection.execute("""
        ALTER TABLE sessions ADD COLUMN person TEXT NOT NULL DEFAULT '';
        CREATE TABLE new_ledger (
            day TEXT NOT NULL,
            model TEXT NOT NULL,
            cause TEXT NOT NULL,
            channel TEXT NOT NULL,
            agent TEXT NOT NULL DEFAULT '',
            person TEXT NOT NULL DEFAULT '',
            requests INTEGER NOT NULL,
            prompt_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL,
            estimated INTEGER NOT NULL,
            money REAL NOT NULL,
            cached INTEGER NOT NULL DEFAULT 0,
            reasoning INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (day, model, cause, channel, agent, person)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO new_ledger (day, model, cause, channel, requests, prompt_tokens, completion_tokens, estimated, money,
            cached, reasoning)
            SELECT day, model, cause, channel, requests, prompt_tokens, completion_tokens, estimated, money, cached,
            reasoning FROM ledger;
        DROP TABLE ledger;
        ALTER TABLE new_ledger RENAME TO ledger;
        UPDATE shared_rows SET local = json_insert(local, '$[4]', '', '$[5]', '') WHERE kind = 'ledger';
    """)


def m030_reminder_headings(connection: apsw.Connection) -> None:
    """What stands before the text of a reminder when it is due, in the language that it was set in."""
    connection.execute("ALTER TABLE jobs ADD COLUMN heading TEXT NOT NULL DEFAULT 'Reminder:'")


def m031_shared_skills(connection: apsw.Connection) -> None:
    """Skills of other boards that wait for the owner's yes here, and what they are granted there; no library reads them.

    `content` is compressed, as shared/skills.py has it.
    """
    connection.execute("""
        CREATE TABLE shared_skills (
            board TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, content BLOB NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (board, name)
        ) STRICT;
        CREATE TABLE shared_skill_grants (
            board TEXT NOT NULL, skill TEXT NOT NULL, grantee TEXT NOT NULL, pinned TEXT NOT NULL,
            granted_by TEXT NOT NULL, granted_at TEXT NOT NULL, PRIMARY KEY (board, skill, grantee)
        ) STRICT, WITHOUT ROWID;
    """)


def m032_standing_approvals(connection: apsw.Connection) -> None:
    """Whose calls were allowed for good: `agent` as in approvals; `whose` is '' for the owner's, "member NAME", "guest" or "mcp".

    Of those of before, as far as it is still known whose call was approved then.
    """
    connection.execute("""
        CREATE TABLE always_by_asker (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            digest TEXT NOT NULL,
            question TEXT NOT NULL,
            at REAL NOT NULL,
            by TEXT NOT NULL,
            agent TEXT NOT NULL DEFAULT '',
            whose TEXT NOT NULL DEFAULT '',
            UNIQUE (digest, agent, whose)
        ) STRICT;
        INSERT INTO always_by_asker (id, digest, question, at, by, agent)
            SELECT id, digest, question, at, by, coalesce((SELECT agent FROM approvals
            WHERE approvals.digest = always.digest AND state IN ('done', 'failed') ORDER BY id DESC LIMIT 1), '')
            FROM always WHERE NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.digest = always.digest
            AND origin IN ('member', 'guest', 'remote', 'hook', 'mcp'));
        DROP TABLE always;
        ALTER TABLE always_by_asker RENAME TO always;
    """)


def m033_job_planners(connection: apsw.Connection) -> None:
    """Who has planned a job, as their channel calls them: it is done with the rights that they have by then."""
    connection.execute("ALTER TABLE jobs ADD COLUMN who TEXT NOT NULL DEFAULT ''")


MIGRATIONS: list[Callable[[apsw.Connection], None]] = [
    m001_conversations,
    m002_acts,
    m003_jobs,
    m004_calibration,
    m005_pulse,
    m006_clock,
    m007_heartbeat,
    m008_sessions,
    m009_tasks,
    m010_inbox,
    m011_approvals,
    m012_heard,
    m013_foreign,
    m014_ledger,
    m015_pulse_priority,
    m016_rights,
    m017_foreign_files,
    m018_lists,
    m019_subagents,
    m020_ledger_details,
    m021_prefix,
    m022_asked_by,
    m023_agents,
    m024_job_agents,
    m025_shared,
    m026_delegations,
    m027_skill_grants,
    m028_approval_agents,
    m029_whose,
    m030_reminder_headings,
    m031_shared_skills,
    m032_standing_approvals,
    m033_job_planners,
]


# How `history.db` came to its present shape.


def m001_samples(connection: apsw.Connection) -> None:
    """What sensors said: by boot and seconds since it in `raw`, by date in `spans`; each value is in one of them.

    `raw` is only ever added to at its end and taken from at its beginning, so that a commit writes a page or two.
    `points` are pairs of a tenth of a second after `began` (u16) and the value (float32, not a number for a failure).
    """
    connection.execute("""
        CREATE TABLE boots (
            id INTEGER PRIMARY KEY,
            boot TEXT NOT NULL UNIQUE,
            offset REAL NOT NULL, -- what to add to seconds since the boot for seconds since 1970
            trusted INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE series (
            id INTEGER PRIMARY KEY,
            sensor TEXT NOT NULL,
            quantity TEXT NOT NULL,
            UNIQUE (sensor, quantity)
        ) STRICT;
        CREATE TABLE raw (
            id INTEGER PRIMARY KEY,
            boot INTEGER NOT NULL REFERENCES boots,
            series INTEGER NOT NULL REFERENCES series,
            began REAL NOT NULL,
            points BLOB NOT NULL
        ) STRICT;
        CREATE TABLE spans (
            seconds INTEGER NOT NULL,
            at INTEGER NOT NULL,
            series INTEGER NOT NULL REFERENCES series,
            count INTEGER NOT NULL,
            failed INTEGER NOT NULL,
            total REAL NOT NULL,
            low REAL,
            high REAL,
            PRIMARY KEY (seconds, at, series)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE troubles (
            id INTEGER PRIMARY KEY,
            boot INTEGER NOT NULL REFERENCES boots,
            sensor TEXT NOT NULL,
            began REAL NOT NULL,
            ended REAL NOT NULL,
            times INTEGER NOT NULL,
            problem TEXT NOT NULL
        ) STRICT;
    """)


def m002_rules(connection: apsw.Connection) -> None:
    """Where each rule stands, and each time that one has fired; `outcome` is empty until it is known."""
    connection.execute("""
        CREATE TABLE rule_states (rule TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT;
        CREATE TABLE firings (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            rule TEXT NOT NULL,
            boot TEXT NOT NULL,
            began REAL NOT NULL,
            at REAL NOT NULL,
            trusted INTEGER NOT NULL,
            why TEXT NOT NULL,
            acts TEXT NOT NULL,
            outcome TEXT NOT NULL
        ) STRICT;
    """)


def m003_set_dates(connection: apsw.Connection) -> None:
    """The second of a boot in which its date was set last; 0 when it was not."""
    connection.execute("ALTER TABLE boots ADD COLUMN set_at REAL NOT NULL DEFAULT 0")


HISTORY_MIGRATIONS: list[Callable[[apsw.Connection], None]] = [m001_samples, m002_rules, m003_set_dates]
HISTORY_FILE = "history.db"
