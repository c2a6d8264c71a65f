"""Every sentence of plans, releases, estimates and pages, once.

A template names the kind of each number (`numbers.KINDS`). Sentences have at most 25 words, name
who acts, and every privacy statement names the attacker, the adjacency and the condition.
"""

WORDS: dict[str, str] = {
    # --- headings ---------------------------------------------------------------------------------
    "plan": "Plan",
    "errors_expected": "Standard errors to expect",
    "exposure": "What one person is exposed to",
    "range": "What the range costs",
    "release": "Release",
    "found": "Findings",
    "found_of": "Findings: {target}",
    "errors": "How the standard errors were made",
    "errors_of": "How the standard errors were made: {target}",
    "asked": "Means and tests",
    "cost": "What privacy cost",
    "limits": "Limits of the promise",
    "origin": "Which release this is",
    "repeat": "How to repeat it",
    "verification": "Verification",
    "page_title": "{targets:and}: estimates from a private release",
    "page_subtitle": "{whose}, {coefficients:coefficients}, {level}",
    "page_foot": "Made on {date} by privest {version}.",
    "levels": "Privacy levels s (a larger s reveals more)",
    # --- names of columns of tables ---------------------------------------------------------------
    "coefficient": "coefficient",
    "estimate": "estimate",
    "standard_error": "standard error",
    "t": "t",
    "z": "z",
    "p_value": "p",
    "share": "share",
    "interval_new": "{confidence:percent} interval of one new value",
    "interval": "{confidence:percent} interval",
    "without": "without privacy",
    "se": "s.e.",
    "error_without": "s.e., no privacy",
    "with": "with privacy",
    "alone": "privacy alone",
    "half": "95%",
    "if_sd": "sd {sd:near}",
    "change": "change",
    "sampling": "sampling",
    "privacy_noise": "privacy noise",
    "share_of_privacy": "share of privacy noise",
    "at": "at",
    "mean": "mean",
    "median": "median",
    "levels_rate": "right at most",
    "levels_level": "level s",
    "levels_unbiased": "unbiased sd",
    "levels_reader": "reader's sd",
    "levels_epsilon": "ε",
    "fact": "fact",
    "which": "value",
    "table_name": "table",
    "header_checksum": "checksum of the header (SHA-256)",
    "table_checksum": "checksum of the table (SHA-256)",
    "ledger_name": "ledger",
    "made_with": "made with",
    "page_date": "page of",
    # --- parts of sentences -----------------------------------------------------------------------
    "quoted": "{text}",
    "of_column": "{target}: {text}",
    "at_level": "privacy level s = {level:level} (a larger s reveals more)",
    "at_levels": "privacy levels per row up to s = {level:level} (a larger s reveals more)",
    "at_epsilon": "ε = {epsilon:epsilon} (δ = 0)",
    "at_epsilon_delta": "ε = {epsilon:epsilon} (δ = {delta:delta})",
    "epsilon_point": "{ratio:near} at ε = {epsilon:near}",
    "rows": "{rows:rows}",
    "persons_rows": "{persons:people} with {rows:rows}",
    "higher": "higher",
    "lower": "lower",
    "named": "{name} ({direction})",
    "subject": "“{target}” is",
    "subject_odds": "The odds of “{target}” are",
    "subject_count": "The expected number of “{target}” is",
    "per_unit": "for each unit more of {name}, other features equal",
    "per_category": "where {column} is {value} rather than the baseline, other features equal",
    "level_point": "{ratio:near} at s = {level:near}",
    "factor": "a factor of {factor:near}",
    "right_most": "at most {p:most}",
    "right_always": "almost always",
    "one_value": "one value replaced anywhere in the range",
    "one_person": "all values of one person replaced anywhere in the range",
    "one_record": "all values of one person replaced anywhere in their ranges",
    "stated": "stated",
    "estimated": "estimated",
    "assumed": "assumed",
    # --- a plan -----------------------------------------------------------------------------------
    "plan_size": "{rows:rows}, {coefficients:coefficients}: all of them can be estimated.",
    "plan_columns": "{rows:rows}, {coefficients:coefficients} for each of {columns:columns}.",
    "plan_persons": "{persons:people} with {rows} rows each ({mean:near} on average).",
    "dropped": "Left out for missing values: {dropped:rows}.",
    "missing_unprotected": "Rows without a value, the private one included, are left out: that a "
    "value is missing is not protected.",
    "missing_public": "Rows without a value, the private one included, are left out: which they "
    "are becomes public.",
    "cut": "Left out beyond the first {most:count} rows of a person: {cut:rows}.",
    "weights": "Rows are weighted by the public column “{column}” (survey weights).",
    "level": "Privacy level s = {level:level}, a cap on Fisher information: a larger s reveals "
    "more.",
    "level_column": "Every row has its own privacy level, the public column “{column}”. The "
    "largest, s = {level:level}, is promised to all rows.",
    "level_mean": "The mean of the levels is {mean:level}.",
    "withheld": "Level 0, withheld: {withheld:rows}.",
    "level_answers": "Randomised response reverses every answer with probability {wrong:near}; "
    "other values count as the nearer answer.",
    "sums_leave": "Estimates leave, made from a few noisy sums. No row leaves, and no feature.",
    "sums_all": "Every row is in every sum with a public weight, and every value is exposed alike.",
    "sums_squares": "{share:percent} of the promise goes to noisy squares of residuals, which give "
    "the intervals.",
    "sums_free": "Noisy squares of the values give the intervals; for means of groups they cost "
    "nothing.",
    "sums_none": "No squares are released: the range alone gives intervals that are at most 10% "
    "wider.",
    "sums_persons": "{share:percent} of the promise goes to noisy squares of the sums of each "
    "person, which give the intervals.",
    "sums_scores": "The variance of the outcome follows from its mean: the whole promise goes to "
    "the sums.",
    "sums_best": "D-efficiency of the weights: at least {share:percent} of the best that any "
    "release with this exposure of one value can have (proved).",
    "sums_best_noise": "D-efficiency of the weights where privacy noise dominates: at least "
    "{share:percent} of the best release with this exposure of one value (proved).",
    "sums_rel": "The noise of the squares is {low:percent} to {high:percent} of the variances that "
    "they show: intervals are Student's t, wider where it is more.",
    "sums_pilot": "A pilot takes {share:percent} of the promise first, and predicts every value.",
    "sums_within": "The sums are of differences from a prediction, at most {within:end}.",
    "clip_within": "Values farther than {within:end} from their prediction count as that far. No "
    "sum shows how many.",
    "sums_variance": "The squares show a residual variance of about {variance:near}.",
    "sums_explained": "The features explain about {share:percent} of the variance (R²).",
    "wald": (
        "Wald test of {names:and} against 0: F({first:count}, {second:count}) = "
        "{statistic:near}, {p:p}."
    ),
    "wald_many": (
        "Wald test of {names:and} against 0: χ²/{first:count} = {statistic:near}, {p:p}."
    ),
    "sums_silent": "Noisy sums show no residuals, no outliers and no share of clipped values.",
    "sums_exposure": "Sums and squares together carry at most {exposure:level} of Fisher "
    "information about one value (squares taken as exact).",
    "other_epsilons": "Largest errors, as multiples of those without privacy: {points:and}.",
    "clip_sums": "Values beyond {low:end} and {high:end} count as these ends. No sum shows how "
    "many: choose the range with care.",
    "clip_far": "Clipping moves a coefficient by less than a tenth of its standard error if the "
    "ends are {far:near} residual sd away from every prediction.",
    "residual_stated": "The residual variance is {variance:near}, as stated.",
    "residual_reference": "The residual variance is {variance:near}, from {rows:rows} of the "
    "public reference set.",
    "residual_unknown": "The residual variance (of values with equal features) is not stated; the "
    "release will show it. What privacy alone adds is exact.",
    "residual_not_shown": "The residual variance (of values with equal features) is not stated, "
    "and no squares are released. What privacy alone adds is exact.",
    "residual_fractions": "The other columns are for a residual sd of a 20th, a 10th and a 5th of "
    "the range.",
    "persons_correlated": "Two values of a person with equal features are taken to have the "
    "correlation {correlation:near}, as stated.",
    "persons_largest": "Values of a person may depend on each other in any way: these errors are "
    "the largest possible. A stated correlation within a person gives closer ones.",
    "residual_none": "There are as many coefficients as rows: the release cannot show the residual "
    "variance, and gives no estimate. Use fewer features.",
    "expected_share": "The errors are for a share of yes of {guess:percent}, which is stated.",
    "expected_mean": "The errors are for a mean count of {guess:near}, which is stated.",
    "no_mean": "No expected share or mean is stated: the errors are for {names:and}. Rarer events "
    "have larger errors: state what is expected.",
    "ratio": "Standard errors are {ratio:times} times those without privacy; {share:percent} of "
    "the variance is privacy noise.",
    "ratio_fractions": "If values vary with sd R/20, R/10 or R/5 around the prediction (R: the "
    "range's width), standard errors are {ratio:near} times those without privacy.",
    "ratio_one": "Standard errors are practically those without privacy.",
    "worth": "A row is worth {share:percent} of a row without privacy: {rows:rows} count as "
    "{worth:count}.",
    "few_answers": "That is few: at this ε a logistic regression needs about {needed:rows}. With "
    "fewer there may be no finite fit.",
    "other_levels": "Standard errors at other levels, as multiples of those without privacy: "
    "{points:and}.",
    "rows_wanted": "For {want} at this level {rows:rows} like these are needed.",
    "persons_wanted": "For {want} at this level {persons:people} like these are needed.",
    # --- what a range costs -----------------------------------------------------------------------
    "clip_later": "These errors leave out what the range {low:end} to {high:end} clips; the "
    "estimate will say which share.",
    "clip_target": "Values beyond {low:end} and {high:end} count as these ends: the estimate is of "
    "clipped values.",
    # --- exposure: the short panel ----------------------------------------------------------------
    "guess": "An ordinary reader guesses one person's {value} with sd {after:down}; without that "
    "person's row, with sd {before:near}. Half of the guesses miss by less than {half:near}.",
    "guess_below": "An ordinary reader guesses one person's {value} with sd below {after:up}; "
    "without that person's row, with sd below {before:up}.",
    "guess_fractions": "If values of {value} vary with sd {sds:near} around the prediction "
    "(R/20, R/10, R/5; R: the range's width), a reader guesses with sd {after:down}.",
    "guess_sums": "An ordinary reader guesses one person's {value} with sd {sds:near}, with or "
    "without that person's row. An attacker who knows every other value has sd {informed:down}.",
    "guess_sums_answer": "An ordinary reader believes 'yes' with {before:percent}, with or without "
    "that person's row.",
    "guess_sums_fractions": "Values of {value} may vary with sd {sds:near} (R/20, R/10, R/5; R: "
    "the range's width). An attacker who knows every other value then has sd {informed:down}.",
    "guess_sums_factors": "Half of the values of {value} may be within a factor of {before:near} "
    "of their prediction. An attacker who knows every other value comes within {informed:down}.",
    "guess_unknown": "Neither a range nor a residual variance is stated: how closely a reader "
    "guesses one person's {value} is unknown. An unbiased guess has sd at least {least:down}.",
    "guess_answer": "A reader believes 'yes' with {before:percent} before, {yes:percent} after a "
    "released yes, {no:percent} after a released no.",
    "guess_factor": "Half of an ordinary reader's guesses are within a factor of {after:down}; "
    "without that person's row, {before:near}.",
    "guess_factors": "If {value} varies by a factor of {sds:near} (R/20, R/10, R/5; R: log range), "
    "half of a reader's guesses are within a factor of {after:down}.",
    "guess_stream": "From all steps a reader guesses one measurement with sd {after:down}; without "
    "its own step, {others:down}; without the stream, {before:near}.",
    "unbiased_steps": "A guess of one measurement from the release that is unbiased for every "
    "value has sd at least {least:down}.",
    "pair": "Between two equally likely values, as far apart as people with equal features "
    "typically are ({apart:near}), an attacker is right {right} (guessing: 50%).",
    "pair_person": "Between two equally likely people, as far apart as people with equal features "
    "typically are ({apart:near}), an attacker is right {right} (guessing: 50%).",
    "pair_fractions": "Between two equally likely values, as far apart as such people typically "
    "are ({apart:near}), an attacker is right {right} (guessing: 50%).",
    "pair_stated": "Between two equally likely values that differ by {apart:near}, an attacker is "
    "right {right} (guessing: 50%).",
    "pair_record": "Between two equally likely people, as far apart in every column as people with "
    "equal features typically are, an attacker is right {right} (guessing: 50%).",
    "ends": "Between the two ends of the range ({low:end}, {high:end}), equally likely, an "
    "attacker is right {right}.",
    "ends_record": "Between the two ends of every range, equally likely, an attacker is right "
    "{right}.",
    "ends_answer": "Between yes and no, with that belief before, an attacker is right {right} "
    "(always the likelier answer: {always:percent}).",
    "no_range": "No range is enforced: ε is unlimited, and values far apart are told apart almost "
    "surely.",
    "epsilon": "Differential privacy, {adjacency}: ε = {epsilon:epsilon} at δ = {delta:delta}, "
    "{word}.",
    "suspicion": "A 10% suspicion becomes at most {p:most}.",
    "suspicion_gaussian": "A 10% suspicion becomes at most {p:most} (except with probability "
    "{out:up}).",
    "band_large": "ε alone permits near-certainty; judge by the attack rates.",
    "band_very_large": "ε alone promises almost nothing; only the attack rates say what is hidden.",
    "not_hidden": "Not hidden: who is in the table, features, numbers of rows, missing values, "
    "group means, and what relatives' values reveal.",
    "not_hidden_sums": "Not protected: who is in the table, features (none leaves), numbers of "
    "rows, missing values, group means, and what relatives' values reveal.",
    "largest_level": "These sentences are for the rows with the largest level, s = {level:level}.",
    # --- exposure: details ------------------------------------------------------------------------
    "sd_is": "The residual variance {variance:near} is {source}; residuals are taken as normal and "
    "independent. Skewed or few-valued data allow closer guesses.",
    "share_is": "The share of yes, {share:percent}, is {source}.",
    "unbiased": "A guess that is unbiased for every value has sd at least {least:down} (Fisher "
    "bound). The reader's guess is biased, and closer.",
    "higher_of_two": "Between two people with equal features, a reader names the one with the "
    "higher value {p:percent} of the time.",
    "prior_tenth": "If the higher value has prior probability 10%, the attacker is right {p:most} "
    "(always the lower: 90%).",
    "odds": "Any event is at most e^ε = {factor:up} times as likely as under another value of this "
    "person, plus δ.",
    "odds_pure": "Any event is at most e^ε = {factor:up} times as likely as under another value of "
    "this person. Over several rows or columns of a person ε adds up.",
    "delta_is": "δ is an additive allowance, not a failure probability. For Gaussian noise a "
    "smaller δ only means a larger ε ({epsilon:epsilon} at δ = {delta:delta}).",
    "unenforced": "For a difference of at most {apart:near}, not enforced: ε = {epsilon:epsilon} "
    "at δ = {delta:delta}.",
    "person_rows_are": "These numbers are for a person with {rows:rows}.",
    "columns_reveal": "Columns of one person that go together reveal each other.",
    "relatives": "These rates assume that relatives' values are known or independent. Correlated "
    "values reveal each other.",
    "second_release": "A second release of the same values adds to all of this.",
    # --- levels without data ----------------------------------------------------------------------
    "value": "value",
    "levels_rate_is": "Right at most: how often an attacker picks the right one of two equally "
    "likely values that differ by {apart:near} (guessing: 50%).",
    "levels_unbiased_is": "Unbiased sd: the least sd of a guess that is unbiased for every value.",
    "levels_reader_is": "Reader's sd: of an ordinary reader's guess, where values vary with sd "
    "{sd:near} around the prediction.",
    "levels_epsilon_is": "ε: at δ = {delta:delta}, where a range of width {apart:near} is "
    "enforced. A wider range has a larger ε.",
    # --- a release --------------------------------------------------------------------------------
    "released": "{rows:rows} released at {level}.",
    "released_sums": "{coefficients:coefficients} estimated from {rows:rows}, released at {level}.",
    "file_document": "Document: {path}",
    "simulated": "The noise is simulated: this is a dry run without protection. Do not publish it "
    "as a private release.",
    "z_steps": "“{name}” holds whole numbers: {unit:exact}·{name} is a value with its privacy "
    "noise.",
    "z_levels": "“{name}” holds whole numbers: {unit:exact}·{name}/√level is a value with its "
    "privacy noise.",
    "z_log": "“{name}” holds whole numbers: {unit:exact}·{name} is the logarithm of a value with "
    "its privacy noise.",
    "z_answers": "“{name}” is 1 for yes and 0 for no; some answers are reversed.",
    "file_table": "Table: {path}",
    "file_header": "Header: {path}",
    "file_ledger": "Ledger: {path}",
    "entry": "Entry {sequence:count} of it is this release of “{subject}”; {left} of its budget is "
    "left.",
    "head": "Head: {head}",
    "left_none": "nothing",
    "left_level": "a privacy level of {level:level}",
    # --- an estimate ------------------------------------------------------------------------------
    "source": "From {whose}, released at {level}.",
    "clear": "{subject} {direction} by {size:value} ({confidence:percent} interval "
    "{ends:interval}) {where}.",
    "clear_percent": "{subject} {direction} by {size} ({confidence:percent} interval {low} to "
    "{high}) {where}.",
    "also_clear": "Also clear: {names:and}.",
    "open": "The direction for {names:and} stays open: the {confidence:percent} interval holds "
    "zero.",
    "none_clear": "No effect on “{target}” is clear: the {confidence:percent} interval of "
    "{names:and} holds zero.",
    "mean_found": "The mean of “{target}” is {value:value} ({confidence:percent} interval "
    "{ends:interval}).",
    "log_mean_found": "The mean logarithm of “{target}” is {value:value} ({confidence:percent} "
    "interval {ends:interval}).",
    "unbounded": "The release bounds no coefficient of “{target}”.",
    "and_more": "{count:count} more",
    "percent_table": "Change of {what} for one unit more (a category: against the baseline)",
    "what_value": "“{target}”",
    "what_odds": "the odds of “{target}”",
    "what_count": "the expected number of “{target}”",
    "read_value": "A coefficient is the change of the outcome for one unit more of a feature, the "
    "others unchanged.",
    "read_log": "The outcome is modelled as its logarithm. Standard errors are of logarithms; "
    "effects are in percent.",
    "read_odds": "Coefficients are logarithms of odds; effects on the odds are in percent.",
    "read_count": "Coefficients are logarithms of the expected number; effects are in percent.",
    "read_interval": "If the model is right, {confidence:percent} of such intervals hold the true "
    "coefficient.",
    "intervals_caption": "Blue: {confidence:percent} intervals with privacy. Grey: those of the "
    "same data without privacy, around the same estimate.",
    "intervals_caption_alone": "Blue: {confidence:percent} intervals with privacy.",
    "intervals_alt": "{confidence:percent} intervals: {points:and}.",
    "interval_point": "{name} {ends:interval}",
    "change_interval": "{low} to {high}",
    "method": "Standard errors: {method}.",
    "method_freedom": "Standard errors: {method}, {freedom:freedom} degrees of freedom.",
    "method_HC": "They hold also where some rows vary more than others.",
    "method_Student": "They are exact where all rows vary alike.",
    "residual_found": "Residual variance from the release: {found:near} (95% interval "
    "{ends:interval}).",
    "residual_hidden": "Residual variance from the release: about 0; the privacy noise hides it.",
    "range_found": "By the fitted model, the range {low:end} to {high:end} clipped {share:share} "
    "of the values.",
    "range_small": "Clipping moves no coefficient by more than {small:near} standard errors: least "
    "squares is used.",
    "range_left": "Clipping moves the coefficients by up to {bias:near} standard errors, which is "
    "not corrected. Use a wider range.",
    "mean_at": "“{target}” has {kind} {value} there ({confidence:percent} interval {ends}).",
    # --- the page ---------------------------------------------------------------------------------
    "split_table": "Standard errors of “{target}” in two parts; their squares add up",
    "equal_rows": "{rows:rows} with privacy tell about as much as {worth} rows without.",
    "noise_hides": "The privacy noise hides how the values themselves vary: errors without it "
    "would be far smaller.",
    "errors_unknown": "The release does not tell what the errors would be without privacy.",
    "errors_public": "These errors follow from public inputs and the release: publishing them "
    "costs no privacy.",
    "no_warning": "No check found a problem. That does not prove the model right.",
    "limit_noise": "The header says that the noise is exact and from the operating system. This "
    "page cannot check how it was drawn.",
    "limit_time": "How long the release took is not protected.",
    "limit_simulated": "The noise of a simulation comes from a seedable generator. Anyone with the "
    "seed can remove it.",
    "limit_public": "Features, rows, missing values and a stated residual variance are public. "
    "They must not come from the private values.",
    "limit_everybody": "Estimates about everybody may reveal something about one person, also "
    "about one who is not in the data.",
    "limit_again": "Every further release adds: two releases with independent noise at level s "
    "count as one at 2s.",
    "limit_model": "Errors and intervals hold if the model is right and rows were chosen without "
    "regard to the private values.",
    "ledger_entry": "entry {sequence:count} of ledger {ledger}, {subject}; {hash}",
    "ledger_simulated": "none: the noise was simulated",
    "ledger_none": "none",
    "commands_made": "These commands made this page.",
    "commands_once": "The data owner runs the release once: another release of the same values "
    "costs privacy again.",
    "page_links": "On this page",
    "page_whole": "This page is one file: it runs no script and loads nothing from elsewhere.",
    "details": "Details",
    # --- the app ----------------------------------------------------------------------------------
    "level_relative": "Privacy level s = {relative:level}/R², where R = {width:end} is the width "
    "of the range. The privacy noise on a value has sd {sd:near}.",
    "level_relative_log": "Privacy level s = {relative:level}/R², where R = {width:near} is the "
    "width of the range in logarithms. The privacy noise on a logarithm has sd {sd:near}.",
    "level_relative_answers": "Privacy level s = {relative:level}, for yes and no as 1 and 0.",
    "need_found": "ε = {epsilon} is the smallest ε with three digits that gives “{name}” a 95% "
    "error of at most {error:near}.",
    "leaves_rows": "{rows:rows}, each with one noisy value of “{target}”.",
    "leaves_public": "Public columns, as they are in the file: {names:and}.",
    "leaves_facts": "ε, δ, the range, names of columns, the number of rows.",
    "leaves_facts_pure": "ε, the range, names of columns, the number of rows.",
    "leaves_sums": "{coefficients:coefficients} with standard errors, made from noisy sums.",
    "leaves_matrix": "The noisy sums and their weight matrix, which shows sums of the features.",
    "stays_rows": "Every row: values of “{target}” and features.",
    "stays_sums": "The exact sums and the noise.",
    "stays_values": "Every value of “{target}”, as it is in the file.",
    "stays_columns": "Columns that are not used.",
    "stays_noise": "The noise.",
    "dry_run": "A dry run shows what the results will look like, with simulated noise. It gives no "
    "protection: keep what it shows to yourself.",
    "dry_run_choice": "Do not choose ε by repeating dry runs until a result looks right: that "
    "choice would depend on the private values.",
    "cost_order": "The account is charged before the release appears. If the computer stops in "
    "between, the same release is finished without a second charge.",
    "cost_more": "Further releases like this one that fit into the account: {times:count}.",
    "history_left": "Still possible: one release at ε = {epsilon:down}. The limit of the account "
    "is ε = {limit:near} for all releases together.",
    "history_none": "Nothing is left. The limit of the account is ε = {limit:near} for all "
    "releases together.",
    # --- verification -----------------------------------------------------------------------------
    "whole_charged": "{path} is whole, and the release that this ledger has charged.",
    "whole": "{path} is whole.",
    "whole_simulated": "{path} is a simulation, which protects nothing; it is whole.",
    "not_verified": "{path} is not verified.",
    "examined": "examined: {what}",
    "not_examined": "not examined: {what}",
    "no_file_shows": "no file can show: {what}",
}
