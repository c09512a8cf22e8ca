BEGIN TRANSACTION;
CREATE TABLE acts ( id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, at TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL, process TEXT NOT NULL ) STRICT;
INSERT INTO "acts" VALUES(11,'helper 12','2026-11-27T05:00:00+00:00','exec','{}','gone');
CREATE TABLE always ( id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, question TEXT NOT NULL, at REAL NOT NULL, by TEXT NOT NULL ) STRICT;
INSERT INTO "always" VALUES(1,'d32260743e32b418a4d61a819d96086802905c4a28e365718dd2538c7409ff54','write_file {"path": "plan.md", "content": "figs", "overwrite": false}',1795755609.9,'terminal');
INSERT INTO "always" VALUES(2,'forgotten','exec ls',7.0,'telegram:1');
INSERT INTO "always" VALUES(3,'guests','exec ls',7.0,'telegram:1');
CREATE TABLE approvals ( id INTEGER PRIMARY KEY AUTOINCREMENT, nonce TEXT NOT NULL UNIQUE, session TEXT NOT NULL, chat TEXT NOT NULL, origin TEXT NOT NULL, asked_by TEXT NOT NULL, call TEXT NOT NULL, effect TEXT NOT NULL, rule TEXT NOT NULL, why TEXT NOT NULL, means TEXT NOT NULL, bound TEXT NOT NULL, digest TEXT NOT NULL, heard TEXT NOT NULL, question TEXT NOT NULL, at REAL NOT NULL, expires REAL NOT NULL, state TEXT NOT NULL, answered_by TEXT NOT NULL, outcome TEXT NOT NULL, process TEXT NOT NULL DEFAULT '', answered REAL NOT NULL DEFAULT 0 ) STRICT;
INSERT INTO "approvals" VALUES(1,'fa0cf02a6c1212c5af94d4fc','terminal','terminal','owner','','["1", "write_file", {"path": "plan.md", "content": "figs", "overwrite": false}]','write','write.owner = ask','write, asked for by the owner','','{}','d32260743e32b418a4d61a819d96086802905c4a28e365718dd2538c7409ff54','[]','write_file {"path": "plan.md", "content": "figs", "overwrite": false}',1795755426.3,1795756326.3,'done','terminal','wrote plan.md: 4 bytes','14814:5441323:d6991123-fa49-442c-9558-7db9b4dd105d',1795755609.8);
INSERT INTO "approvals" VALUES(2,'1c0bb4bfab0134c3befe5f6a','terminal','terminal','owner','','["1", "rule", {"action": "add", "name": "frost", "when": "greenhouse.temperature < 2", "notify": "It freezes", "output": "", "options": null}]','instruct','instruct.owner = ask','instruct, asked for by the owner','frost: when the temperature of greenhouse is below 2 °C: tell you ''It freezes''. Never twice within 10 minutes.','{}','70498fc14a5e6ef7927f476314ca410536a258ccc04a9d5a720ec577e4f3cfd2','[]','rule
  action: add
  name: frost
  when: greenhouse.temperature < 2
  notify: It freezes
  output: 
  options: null
  which means: frost: when the temperature of greenhouse is below 2 °C: tell you ''It freezes''. Never twice within 10 minutes.',1795755469.0,1795756369.0,'done','terminal','the rule is kept: frost: when the temperature of greenhouse is below 2 °C: tell you ''It freezes''. Never twice within 10 minutes.','14873:5441625:d6991123-fa49-442c-9558-7db9b4dd105d',1795755613.2);
INSERT INTO "approvals" VALUES(3,'9fed2e224656cb9b364db283','terminal','terminal','owner','','["1", "write_file", {"path": "plan2.md", "content": "figs", "overwrite": false}]','write','write.owner = ask','write, asked for by the owner','','{}','c67bafb9a039510d5338afb4d335fa29a58520d379581cf9757b94fff8f11d65','[]','write_file {"path": "plan2.md", "content": "figs", "overwrite": false}',1795755473.6,1795756373.6,'waiting','','','',0.0);
INSERT INTO "approvals" VALUES(4,'2bdcb26cd83392f1167a58e9','terminal','terminal','owner','','["1", "spawn", {"task": "count the parts", "name": "", "mode": "minimal", "tools": null, "needs": null, "tasks": null, "steps": 0, "seconds": 0.0, "tokens": 0}]','write','write.owner = ask','write, asked for by the owner','','{}','c4dc307ce38158d8d9e56b5264dc49290aa48e2597cacdd74ed255257f42803a','[]','spawn {"task": "count the parts", "name": "", "mode": "minimal", "tools": null, "needs": null, "tasks": null, "steps": 0, "seconds": 0.0, "tokens": 0}',1795755481.0,1795756381.0,'failed','terminal','a helper needs a model, and none is configured','15007:5442011:d6991123-fa49-442c-9558-7db9b4dd105d',1795755616.61359);
INSERT INTO "approvals" VALUES(7,'n7','terminal','terminal','guest','','["1", "write_file", {"path": "plan.md", "content": "figs", "overwrite": false}]','write','write.owner = ask','write, asked for by the owner','','{}','guests','[]','write_file {"path": "plan.md", "content": "figs", "overwrite": false}',1795755426.3,1795756326.3,'done','terminal','wrote plan.md: 4 bytes','14814:5441323:d6991123-fa49-442c-9558-7db9b4dd105d',1795755609.8);
INSERT INTO "approvals" VALUES(8,'n8','helper 12','terminal','helper','','["1", "write_file", {"path": "plan2.md", "content": "figs", "overwrite": false}]','write','write.owner = ask','write, asked for by the owner','','{}','helpers','[]','write_file {"path": "plan2.md", "content": "figs", "overwrite": false}',1795755473.6,1795756373.6,'waiting','','','',0.0);
CREATE TABLE beat_lines ( line TEXT PRIMARY KEY, after REAL NOT NULL, since REAL NOT NULL, told INTEGER NOT NULL, seen TEXT NOT NULL ) STRICT;
CREATE TABLE beats ( id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, day TEXT NOT NULL, boot TEXT NOT NULL, mono REAL NOT NULL, tokens INTEGER NOT NULL, outcome TEXT NOT NULL, session TEXT NOT NULL DEFAULT '', text TEXT NOT NULL DEFAULT '' ) STRICT;
CREATE TABLE calibration ( model TEXT PRIMARY KEY, bytes REAL NOT NULL CHECK (bytes >= 0), tokens REAL NOT NULL CHECK (tokens >= 0) ) STRICT;
CREATE TABLE inbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, text TEXT NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL, external TEXT NOT NULL, attachments TEXT NOT NULL, at REAL NOT NULL, process TEXT NOT NULL DEFAULT '', within INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0 , foreign_parts TEXT NOT NULL DEFAULT '[]') STRICT;
CREATE TABLE jobs ( id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, message TEXT NOT NULL, due REAL NOT NULL, claimed TEXT NOT NULL DEFAULT '' , kind TEXT NOT NULL DEFAULT 'reminder', plan TEXT NOT NULL DEFAULT 'at', spec TEXT NOT NULL DEFAULT '', zone TEXT NOT NULL DEFAULT '', boot TEXT NOT NULL DEFAULT '', mono REAL NOT NULL DEFAULT 0, after REAL NOT NULL DEFAULT 0, done TEXT NOT NULL DEFAULT '[]', catch_up TEXT NOT NULL DEFAULT 'once', deliver TEXT NOT NULL DEFAULT 'always', enabled INTEGER NOT NULL DEFAULT 1, rounds INTEGER NOT NULL DEFAULT 0, last_slot TEXT NOT NULL DEFAULT '', last_run REAL NOT NULL DEFAULT 0, last_status TEXT NOT NULL DEFAULT '', last_error TEXT NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT 0, told TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "jobs" VALUES(1,'terminal','water the tomatoes',1795766150.0,'','reminder','at','','','d6991123-fa49-442c-9558-7db9b4dd105d',64955.272819918,0.0,'[]','once','always',1,0,'',0.0,'','',0,'');
INSERT INTO "jobs" VALUES(2,'terminal','feed the cat',1795755354.0,'','reminder','cron','30 7 * * *','UTC','',0.0,1795755354.0,'[]','once','always',1,0,'',0.0,'','',0,'');
INSERT INTO "jobs" VALUES(4,'terminal','df -h',1795755421.5,'','command','cron','0 6 * * *','UTC','',0.0,0.0,'[]','once','always',1,0,'',0.0,'','',0,'');
CREATE TABLE ledger ( day TEXT NOT NULL, model TEXT NOT NULL, cause TEXT NOT NULL, channel TEXT NOT NULL, requests INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, money REAL NOT NULL, PRIMARY KEY (day, model, cause, channel) ) STRICT, WITHOUT ROWID;
INSERT INTO "ledger" VALUES('2026-11-26','openai:big','chat','telegram',3,10,5,1,0.5);
INSERT INTO "ledger" VALUES('2026-11-26','openai:big','helper','terminal',1,9,1,0,0.0);
CREATE TABLE marks ( name TEXT PRIMARY KEY, value TEXT NOT NULL ) STRICT;
INSERT INTO "marks" VALUES('chat.last','terminal');
INSERT INTO "marks" VALUES('pruned.day','2026-11-27');
INSERT INTO "marks" VALUES('pulse','2 2026-11-27T04:57:03+00:00');
INSERT INTO "marks" VALUES('dream.day','2026-11-27');
CREATE TABLE messages ( id INTEGER PRIMARY KEY, turn INTEGER NOT NULL REFERENCES turns, role TEXT NOT NULL, text TEXT NOT NULL, calls TEXT NOT NULL DEFAULT '[]', call_id TEXT NOT NULL DEFAULT '' ) STRICT;
INSERT INTO "messages" VALUES(1,1,'user','<moment>Friday 2026-11-27 04:55 UTC (UTC+0000); its measurements are simulated</moment>
hello','[]','');
INSERT INTO "messages" VALUES(2,1,'assistant','','[["intent-1", "first_run", {}, ""]]','');
INSERT INTO "messages" VALUES(3,1,'tool','A few questions; "skip" leaves one out, "done" ends them.
Name: what should I call you?','[]','intent-1');
INSERT INTO "messages" VALUES(4,1,'assistant','A few questions; "skip" leaves one out, "done" ends them.
Name: what should I call you?','[]','');
INSERT INTO "messages" VALUES(5,2,'user','<moment>Friday 2026-11-27 04:55 UTC (UTC+0000); its measurements are simulated</moment>
My name is Ada','[]','');
INSERT INTO "messages" VALUES(6,2,'assistant','','[["intent-5", "first_run", {"name": "Ada"}, ""]]','');
INSERT INTO "messages" VALUES(7,2,'tool','Noted: Name Ada.
Time zone: which city are you near, such as Berlin or New York?','[]','intent-5');
INSERT INTO "messages" VALUES(8,2,'assistant','Noted: Name Ada.
Time zone: which city are you near, such as Berlin or New York?','[]','');
INSERT INTO "messages" VALUES(9,3,'user','<moment>Friday 2026-11-27 04:55 UTC (UTC+0000); its measurements are simulated</moment>
remind me in 3 hours to water the tomatoes','[]','');
INSERT INTO "messages" VALUES(10,3,'assistant','','[["intent-9", "cron", {"action": "add", "at_seconds": 10800, "message": "water the tomatoes"}, ""]]','');
INSERT INTO "messages" VALUES(11,3,'tool','reminder 1 is kept for 07:55 (in 3 h): water the tomatoes (told in an open interactive `picoclaw chat`, late if none is open then)','[]','intent-9');
INSERT INTO "messages" VALUES(12,3,'assistant','reminder 1 is kept for 07:55 (in 3 h): water the tomatoes (told in an open interactive `picoclaw chat`, late if none is open then)','[]','');
INSERT INTO "messages" VALUES(13,4,'user','<moment>Friday 2026-11-27 04:55 UTC (UTC+0000); its measurements are simulated</moment>
how warm is it?','[]','');
INSERT INTO "messages" VALUES(14,4,'assistant','','[["intent-13", "sensor_read", {"quantity": "temperature"}, ""]]','');
INSERT INTO "messages" VALUES(15,4,'tool','greenhouse: temperature 18.07 °C (bme280 on i2c-1 at 0x76, read just now)','[]','intent-13');
INSERT INTO "messages" VALUES(16,4,'assistant','greenhouse: temperature 18.07 °C (bme280 on i2c-1 at 0x76, read just now)','[]','');
INSERT INTO "messages" VALUES(17,5,'user','<moment>Friday 2026-11-27 04:55 UTC (UTC+0000); its measurements are simulated</moment>
remember that the fuse of the pump is 3 A','[]','');
INSERT INTO "messages" VALUES(18,5,'assistant','','[["intent-17", "memory_store", {"text": "the fuse of the pump is 3 A"}, ""]]','');
INSERT INTO "messages" VALUES(19,5,'tool','noted in memory/202611/20261127.md line 3','[]','intent-17');
INSERT INTO "messages" VALUES(20,5,'assistant','noted in memory/202611/20261127.md line 3','[]','');
INSERT INTO "messages" VALUES(21,6,'user','<moment>Friday 2026-11-27 04:55 UTC (UTC+0000); its measurements are simulated</moment>
remind me every day at 7:30 to feed the cat','[]','');
INSERT INTO "messages" VALUES(22,6,'assistant','','[["intent-21", "cron", {"action": "add", "cron_expr": "30 7 * * *", "message": "feed the cat"}, ""]]','');
INSERT INTO "messages" VALUES(23,6,'tool','reminder 2 is kept, every day at 07:30 (UTC): 07:30, Sat 2026-11-28 07:30, Sun 2026-11-29 07:30 (the first in 2 h 34 min): feed the cat (told in an open interactive `picoclaw chat`, late if none is open then)','[]','intent-21');
INSERT INTO "messages" VALUES(24,6,'assistant','reminder 2 is kept, every day at 07:30 (UTC): 07:30, Sat 2026-11-28 07:30, Sun 2026-11-29 07:30 (the first in 2 h 34 min): feed the cat (told in an open interactive `picoclaw chat`, late if none is open then)','[]','');
CREATE TABLE migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;
INSERT INTO "migrations" VALUES('m001_conversations','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m002_acts','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m003_jobs','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m004_calibration','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m005_pulse','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m006_clock','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m007_heartbeat','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m008_sessions','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m009_tasks','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m010_inbox','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m011_approvals','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m012_heard','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m013_foreign','2026-11-27 04:55:47');
INSERT INTO "migrations" VALUES('m014_ledger','2026-11-27 04:55:47');
CREATE TABLE outbox ( id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, text TEXT NOT NULL, at REAL NOT NULL, begun TEXT NOT NULL DEFAULT '' , approval INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "outbox" VALUES(1,'terminal','number 1 waits for your yes until 05:12:
write_file {"path": "plan.md", "content": "figs", "overwrite": false}
(write, asked for by the owner)
/yes 1, /no 1, or /always 1 to allow exactly this for good',1795755426.3,'',1);
CREATE TABLE pulse ( id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 10), session TEXT NOT NULL, source TEXT NOT NULL DEFAULT '', since TEXT NOT NULL, done TEXT NOT NULL DEFAULT '', done_at REAL ) STRICT;
INSERT INTO "pulse" VALUES(1,'mend the pump',10,'terminal','','2026-11-27T04:57:02+00:00','',NULL);
INSERT INTO "pulse" VALUES(3,'usual',5,'terminal','','2026-11-27T05:00:00+00:00','',NULL);
INSERT INTO "pulse" VALUES(4,'low',1,'terminal','','2026-11-27T05:00:00+00:00','',NULL);
CREATE TABLE results ( id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions, at TEXT NOT NULL, tool TEXT NOT NULL, text TEXT NOT NULL, process TEXT NOT NULL, turn INTEGER NOT NULL DEFAULT 0 ) STRICT;
CREATE TABLE "sessions" ( id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, shown_from INTEGER NOT NULL DEFAULT 0, begun TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', flushed INTEGER NOT NULL DEFAULT 0 ) STRICT;
INSERT INTO "sessions" VALUES(1,'terminal',0,'2026-11-27T04:55:47+00:00','','',0);
INSERT INTO "sessions" VALUES(2,'helper 12',0,'2026-11-27T05:00:00+00:00','','',0);
INSERT INTO "sessions" VALUES(3,'helper bees',0,'','','',0);
CREATE TABLE spent ( day TEXT NOT NULL, key TEXT NOT NULL, provider TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, PRIMARY KEY (day, key, provider) ) STRICT, WITHOUT ROWID;
CREATE TABLE summaries ( id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions, upto INTEGER NOT NULL, at TEXT NOT NULL, text TEXT NOT NULL ) STRICT;
CREATE TABLE task_messages ( task INTEGER NOT NULL REFERENCES tasks, place INTEGER NOT NULL, message TEXT NOT NULL, PRIMARY KEY (task, place) ) STRICT, WITHOUT ROWID;
CREATE TABLE tasks ( id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, parent INTEGER NOT NULL DEFAULT 0, depth INTEGER NOT NULL DEFAULT 1, flow INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL, text TEXT NOT NULL, mode TEXT NOT NULL, tools TEXT NOT NULL, needs TEXT NOT NULL DEFAULT '[]', steps INTEGER NOT NULL, seconds REAL NOT NULL, tokens INTEGER NOT NULL, waits TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'waiting', claimed TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0, used_steps INTEGER NOT NULL DEFAULT 0, used_seconds REAL NOT NULL DEFAULT 0, used_tokens INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL DEFAULT '', letter INTEGER NOT NULL DEFAULT 0, heard INTEGER NOT NULL DEFAULT 0, asked REAL NOT NULL, ended REAL NOT NULL DEFAULT 0 , taint TEXT NOT NULL DEFAULT '[]') STRICT;
CREATE TABLE "turns" ( id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES sessions, at TEXT NOT NULL, provider TEXT NOT NULL, steps INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, stopped TEXT NOT NULL, undone INTEGER NOT NULL DEFAULT 0 , inbox INTEGER NOT NULL DEFAULT 0, heard TEXT NOT NULL DEFAULT '[]') STRICT;
INSERT INTO "turns" VALUES(1,1,'2026-11-27T04:55:47+00:00','intents',2,0,0,'',0,0,'[]');
INSERT INTO "turns" VALUES(2,1,'2026-11-27T04:55:48+00:00','intents',2,0,0,'',0,0,'[]');
INSERT INTO "turns" VALUES(3,1,'2026-11-27T04:55:50+00:00','intents',2,0,0,'',0,0,'[]');
INSERT INTO "turns" VALUES(4,1,'2026-11-27T04:55:51+00:00','intents',2,0,0,'',0,0,'[]');
INSERT INTO "turns" VALUES(5,1,'2026-11-27T04:55:52+00:00','intents',2,0,0,'',0,0,'[]');
INSERT INTO "turns" VALUES(6,1,'2026-11-27T04:55:54+00:00','intents',2,0,0,'',0,0,'[]');
CREATE INDEX messages_of_turn ON messages (turn, id);
CREATE UNIQUE INDEX open_sessions ON sessions (key) WHERE ended = '';
CREATE INDEX turns_of_session ON turns (session, id);
CREATE INDEX summaries_of_session ON summaries (session, id);
CREATE INDEX results_of_session ON results (session, id);
CREATE INDEX tasks_by_status ON tasks (status);
CREATE UNIQUE INDEX inbox_once ON inbox (key, external) WHERE external != '';
CREATE INDEX inbox_open ON inbox (id) WHERE NOT done;
CREATE INDEX turns_of_inbox ON turns (inbox) WHERE inbox > 0;
CREATE INDEX approvals_open ON approvals (id) WHERE state IN ('waiting', 'running');
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sessions',3);
INSERT INTO "sqlite_sequence" VALUES('turns',6);
INSERT INTO "sqlite_sequence" VALUES('acts',11);
INSERT INTO "sqlite_sequence" VALUES('jobs',4);
INSERT INTO "sqlite_sequence" VALUES('pulse',4);
INSERT INTO "sqlite_sequence" VALUES('approvals',8);
INSERT INTO "sqlite_sequence" VALUES('outbox',4);
INSERT INTO "sqlite_sequence" VALUES('always',3);
COMMIT;
