// The elements alone, for pages of others: <script src="http://agent:6060/profiling/elements.js">.

import './elements/all';
import { adopt } from './core/sheet';
import theme from './styles/theme.css';

adopt(theme);
