package kafkatests;

import java.util.Locale;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Leaves out the forms of a test that need no ZooKeeper, and names the log folder after the test. */
public final class Selection implements ExecutionCondition, BeforeEachCallback {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        String name = context.getDisplayName().toLowerCase(Locale.ROOT);
        boolean isOther = name.contains("kraft") || name.contains("type=raft")
            || name.contains("zkmigration") || name.contains("raft-");
        return context.getTestMethod().isPresent() && isOther
            ? ConditionEvaluationResult.disabled("not in ZooKeeper mode")
            : ConditionEvaluationResult.enabled("");
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        Beside.testStarts(context.getRequiredTestMethod().getName() + "-" + context.getDisplayName());
    }
}
