// Every custom element, one line each.

import './findings';
import './flamegraph';
import './heatmap';
import './requests';
import './tile';
import './timeline';
import './timeseries';
